/* The limit of every reader: the chunks of a dataset, in memory as they are stored, inflated into a
   buffer of each thread and forgotten. Reading, unshuffling and adding up are not in it.
   .C("limit_load", path, name) once, then .C("limit_inflate", threads, bytes) to be timed. */
#include <hdf5.h>
#include <libdeflate.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

static struct {
  size_t chunks, inflated; /* inflated: bytes of one chunk */
  unsigned char **stored;
  size_t *size;
} file;
static atomic_size_t next, failed;

void limit_free(void) {
  for (size_t k = 0; k < file.chunks; ++k) free(file.stored[k]);
  free(file.stored);
  free(file.size);
  file.stored = NULL;
  file.size = NULL;
  file.chunks = 0;
}

/* Datasets of rank 1 or 2 whose chunks are all written. `*status` is 0 if all went well. */
void limit_load(char **path, char **name, int *status) {
  limit_free();
  *status = 1;
  hid_t id = H5Fopen(*path, H5F_ACC_RDONLY, H5P_DEFAULT);
  hid_t set = H5Dopen2(id, *name, H5P_DEFAULT);
  hid_t space = H5Dget_space(set), list = H5Dget_create_plist(set), type = H5Dget_type(set);
  hsize_t extent[2] = {1, 1}, chunk[2] = {1, 1};
  int rank = H5Sget_simple_extent_ndims(space);
  if (rank < 1 || rank > 2) return;
  H5Sget_simple_extent_dims(space, extent, NULL);
  H5Pget_chunk(list, rank, chunk);
  size_t down = (extent[0] + chunk[0] - 1) / chunk[0], across = (extent[1] + chunk[1] - 1) / chunk[1];
  file.chunks = down * across;
  file.inflated = chunk[0] * chunk[1] * H5Tget_size(type);
  file.stored = calloc(file.chunks, sizeof *file.stored);
  file.size = calloc(file.chunks, sizeof *file.size);
  if (!file.stored || !file.size) return;
  *status = 0;
  for (size_t k = 0; k < file.chunks; ++k) {
    hsize_t at[2] = {k / across * chunk[0], k % across * chunk[1]}, size = 0;
    uint32_t mask;
    if (H5Dget_chunk_storage_size(set, at, &size) < 0 || !(file.stored[k] = malloc(size)) ||
        H5Dread_chunk(set, H5P_DEFAULT, at, &mask, file.stored[k]) < 0) {
      *status = 1;
      break;
    }
    file.size[k] = size;
  }
  H5Tclose(type);
  H5Pclose(list);
  H5Sclose(space);
  H5Dclose(set);
  H5Fclose(id);
}

static void *inflate_all(void *unused) {
  struct libdeflate_decompressor *inflater = libdeflate_alloc_decompressor();
  unsigned char *out = malloc(file.inflated);
  (void)unused;
  for (size_t k; (k = atomic_fetch_add(&next, 1)) < file.chunks;) {
    if (libdeflate_zlib_decompress(inflater, file.stored[k], file.size[k], out, file.inflated, NULL)) {
      atomic_fetch_add(&failed, 1);
    }
  }
  free(out);
  libdeflate_free_decompressor(inflater);
  return NULL;
}

/* `*bytes` is how many came out, 0 if a chunk could not be inflated. */
void limit_inflate(int *threads, double *bytes) {
  pthread_t others[64];
  int more = *threads > 64 ? 63 : *threads - 1;
  atomic_store(&next, 0);
  atomic_store(&failed, 0);
  for (int i = 0; i < more; ++i) pthread_create(&others[i], NULL, inflate_all, NULL);
  inflate_all(NULL);
  for (int i = 0; i < more; ++i) pthread_join(others[i], NULL);
  *bytes = atomic_load(&failed) ? 0 : (double)file.chunks * (double)file.inflated;
}
