#include <regatta/r/entry.hpp>

#include "h5-entry.h"

#include <cstdio>
#include <memory>
#include <string>

#ifdef REGATTA_WITH_HDF5

#include <regatta/r/host.hpp>

#include "h5-list.hpp"
#include "h5-median.hpp"
#include "h5-r.hpp"
#include "h5-read.hpp"
#include "h5-sparse.hpp"
#include "h5-stats.hpp"
#include "h5-write.hpp"

#if defined(REGATTA_WITH_LIBDEFLATE)
#include <libdeflate.h>
#elif defined(REGATTA_WITH_ZLIB)
#include <zlib.h>
#endif

using regatta::callR;
using namespace regatta::h5;

SEXP ffi_h5_about(void) {
  return guarded([] {
    unsigned major = 0, minor = 0, release = 0;
    {
      const Library library;
      H5get_libversion(&major, &minor, &release);
    }
    const std::string version =
        std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(release);
#if defined(REGATTA_WITH_LIBDEFLATE)
    const std::string inflate = "libdeflate " LIBDEFLATE_VERSION_STRING;
#elif defined(REGATTA_WITH_ZLIB)
    const std::string inflate = std::string("zlib ") + zlibVersion();
#else
    const std::string inflate = "libhdf5";
#endif
#if defined(REGATTA_WITH_H5DCHUNK_ITER)
    const bool iterates = true;
#else
    const bool iterates = false;
#endif
    RList list({"hdf5", "inflate", "chunk_iter"});
    list.set(0, r_string(version));
    list.set(1, r_string(inflate));
    list.set(2, r_logical(iterates));
    return list.get();
  });
}

static const char* layout_word(Layout layout) {
  switch (layout) {
    case Layout::compact: return "compact";
    case Layout::contiguous: return "contiguous";
    case Layout::chunked: return "chunked";
    default: return "virtual";
  }
}

SEXP ffi_h5_describe(SEXP path, SEXP name) {
  return guarded([&] {
    const Facts facts = read_facts(string_of(path), string_of(name));
    RList list({"extents", "chunk", "type", "layout", "filters"});
    list.set(0, r_numbers(facts.extents));
    list.set(1, r_numbers(facts.chunk));
    list.set(2, r_string(type_name(facts.number)));
    list.set(3, r_string(layout_word(facts.layout)));
    list.set(4, r_strings(facts.filter_names));
    return list.get();
  });
}

SEXP ffi_h5_stored(SEXP path, SEXP name) {
  return guarded([&] { return r_numbers({stored_bytes(string_of(path), string_of(name))}); });
}

SEXP ffi_h5_check(SEXP source) {
  return guarded([&] {
    const Source from = source_of(source);
    check_shape(read_facts(from.path, from.name), from.shape);
    return R_NilValue;
  });
}

SEXP ffi_h5_list(SEXP path, SEXP group) {
  return guarded([&] {
    const std::vector<Item> items = list_items(string_of(path), string_of(group));
    const auto column = [&](std::string Item::*field) {
      std::vector<std::string> words;
      for (const Item& item : items) words.push_back(item.*field);
      return r_strings(words);
    };
    const auto numbers = [&](std::vector<std::uint64_t> Item::*field) {
      std::vector<std::vector<std::uint64_t>> all;
      for (const Item& item : items) all.push_back(item.*field);
      return r_lists(all);
    };
    std::vector<std::vector<std::string>> fields;
    for (const Item& item : items) fields.push_back(item.fields);
    RList list({"name", "kind", "type", "target", "filters", "extents", "chunk", "fields"});
    list.set(0, column(&Item::name));
    list.set(1, column(&Item::kind));
    list.set(2, column(&Item::type));
    list.set(3, column(&Item::target));
    list.set(4, column(&Item::filters));
    list.set(5, numbers(&Item::extents));
    list.set(6, numbers(&Item::chunk));
    list.set(7, r_string_lists(fields));
    return list.get();
  });
}

SEXP ffi_h5_values(SEXP path, SEXP name, SEXP attribute, SEXP field) {
  return guarded([&]() -> SEXP {
    Values values;
    if (!read_values(string_of(path), string_of(name), string_of(attribute), string_of(field), &values)) {
      return R_NilValue;
    }
    if (values.strings) return r_strings(values.text);
    return callR([&] {
      const R_xlen_t size = static_cast<R_xlen_t>(values.numbers.size());
      SEXP out = Rf_allocVector(values.boolean ? LGLSXP : values.whole ? INTSXP : REALSXP, size);
      for (R_xlen_t i = 0; i < size; ++i) {
        const double value = values.numbers[static_cast<std::size_t>(i)];
        if (values.boolean) {
          LOGICAL(out)[i] = value == missing_code ? NA_LOGICAL : value != 0.0;
        } else if (values.whole) {
          INTEGER(out)[i] = static_cast<int>(value);
        } else {
          REAL(out)[i] = value;
        }
      }
      return out;
    });
  });
}

/* The cache that an external pointer leads to, which may be dropped while it is in use; none for NULL. */
typedef std::shared_ptr<Cache> CacheOwner;
static CacheOwner cache_of(SEXP pointer) {
  const void* const owner = pointer == R_NilValue ? nullptr : R_ExternalPtrAddr(pointer);
  return owner ? *static_cast<const CacheOwner*>(owner) : nullptr;
}

static void drop_cache(SEXP pointer) {
  delete static_cast<CacheOwner*>(R_ExternalPtrAddr(pointer));
  R_ClearExternalPtr(pointer);
}

/* Several datasets of a file in one cache. */
SEXP ffi_h5_cache_new(SEXP source, SEXP others, SEXP budget, SEXP limit) {
  return guarded([&]() -> SEXP {
    std::vector<Tiling> tilings;
    const Source from = source_of(source);
    const std::string& where = from.path;
    for (R_xlen_t i = -1; i < XLENGTH(others); ++i) {
      const std::string name = i < 0 ? from.name : string_of(others, i);
      const Matrix matrix(where, name, from.plane, nullptr, i < 0 ? &from.shape : nullptr);
      const Library library;
      Tiling one;
      if (!matrix.tiling(library, &one)) {
        throw failure(place(where, name) + " cannot be cached: its elements are in other files, whose changes "
                                           "would not be noticed",
                      where, name);
      }
      tilings.push_back(one);
    }
    const double most = Rf_asReal(limit);
    std::unique_ptr<CacheOwner> owner(new CacheOwner(new Cache(
        where, tilings, static_cast<std::uint64_t>(Rf_asReal(budget)), most < 9e18 ? static_cast<std::int64_t>(most) : INT64_MAX)));
    SEXP pointer = callR([&] {
      SEXP made = PROTECT(R_MakeExternalPtr(owner.get(), R_NilValue, R_NilValue));
      R_RegisterCFinalizerEx(made, &drop_cache, FALSE);
      UNPROTECT(1);
      return made;
    });
    owner.release();
    return pointer;
  });
}

SEXP ffi_h5_cache_drop(SEXP pointer) {
  return guarded([&] {
    drop_cache(pointer);
    return R_NilValue;
  });
}

SEXP ffi_h5_cache_info(SEXP pointer) {
  return guarded([&]() -> SEXP {
    const CacheOwner cache = cache_of(pointer);
    if (!cache) return R_NilValue;
    RList list({"budget", "used", "chunks", "kept", "changed", "id"});
    list.set(0, r_numbers({cache->budget()}));
    list.set(1, r_numbers({cache->used()}));
    list.set(2, r_numbers({cache->entries()}));
    list.set(3, r_numbers({cache->kept()}));
    list.set(4, r_logical(cache->changed()));
    list.set(5, r_string(std::to_string(cache->tag())));
    return list.get();
  });
}

/* When the file of each dataset was last changed. */
SEXP ffi_h5_cache_changed(SEXP pointer) {
  return guarded([&]() -> SEXP {
    const CacheOwner cache = cache_of(pointer);
    return r_doubles(cache ? cache->last_changes() : std::vector<double>());
  });
}

SEXP ffi_h5_read(SEXP source, SEXP slow, SEXP fast, SEXP type, SEXP threads, SEXP cache) {
  return guarded([&]() -> SEXP {
    const CacheOwner kept = cache_of(cache);
    const Source from = source_of(source);
    const Matrix matrix(from.path, from.name, from.plane, kept.get(), &from.shape);
    const Selection lines = selection_of(slow, matrix.slow());
    const Selection columns = selection_of(fast, matrix.fast());
    const std::uint64_t size = checked_size(columns.size(matrix.fast()), lines.size(matrix.slow()));
    const std::string kind = string_of(type);
    if (kind != "double" && !is_r_integer(matrix.type())) {
      throw std::logic_error("these elements are no integers of R");
    }
    RList list({"values", "rounded"});
    list.set(0, callR([&] {
      return Rf_allocVector(kind == "double" ? REALSXP : kind == "logical" ? LGLSXP : INTSXP,
                            static_cast<R_xlen_t>(size));
    }));
    SEXP values = VECTOR_ELT(list.get(), 0);
    Target target = {nullptr, nullptr};
    if (kind == "double") {
      target.real = REAL(values);
    } else {
      target.integer = kind == "logical" ? LOGICAL(values) : INTEGER(values);
    }
    const bool rounded = read_part(matrix, lines, columns, target, threads_of(threads));
    list.set(1, r_logical(rounded));
    return list.get();
  });
}

/* Of each axis: the group of each index or NULL, how many there are, how often each counts or NULL. */
static Groups groups_of(SEXP groups, R_xlen_t axis, std::uint64_t extent) {
  SEXP one = VECTOR_ELT(groups, axis), of = VECTOR_ELT(one, 0), times = VECTOR_ELT(one, 2);
  Groups out;
  out.count = static_cast<unsigned>(INTEGER(VECTOR_ELT(one, 1))[0]);
  if (times != R_NilValue) out.times.assign(INTEGER(times), INTEGER(times) + XLENGTH(times));
  if (of == R_NilValue) return out;
  if (static_cast<std::uint64_t>(XLENGTH(of)) != extent) {
    throw std::logic_error("groups are not those of the matrix");
  }
  out.of.assign(INTEGER(of), INTEGER(of) + XLENGTH(of));
  return out;
}

/* What R asks for, and where it goes: statistics of the first axis and of the second. */
struct Asked {
  Wanted wanted;
  bool totals, medians; /* the passes that find it */
  Results results[2];
  bool given[2];
  bool progress;
  Results* of(int axis) { return given[axis] ? &results[axis] : nullptr; }
};

static Asked asked_of(SEXP flags) {
  const int* const flag = LOGICAL(flags);
  Asked asked;
  asked.wanted = Wanted{flag[0] != 0, flag[1] != 0, flag[2] != 0, flag[3] != 0};
  asked.medians = flag[4] != 0;
  /* Medians come with counts, which may be all else that is asked for. */
  asked.totals = !asked.medians || flag[0] || flag[1] || flag[2] || flag[3];
  asked.given[0] = flag[5] != 0;
  asked.given[1] = flag[6] != 0;
  asked.progress = flag[7] != 0;
  return asked;
}

/* The statistics that were computed; the vectors of others are empty. */
static SEXP r_results(const Results& results) {
  RList list({"sum", "mean", "var", "min", "max", "nnz", "median", "count", "missing", "rounded"});
  const std::vector<double>* const columns[] = {&results.sum,     &results.mean,   &results.var,
                                                &results.low,     &results.high,   &results.nonzero,
                                                &results.median,  &results.count,  &results.missing};
  for (R_xlen_t i = 0; i < 9; ++i) list.set(i, r_doubles(*columns[i]));
  list.set(9, r_logical(results.rounded));
  return list.get();
}

SEXP ffi_h5_stats(SEXP source, SEXP groups, SEXP wanted, SEXP threads, SEXP memory, SEXP cache) {
  return guarded([&] {
    const CacheOwner kept = cache_of(cache);
    const Source from = source_of(source);
    const Matrix matrix(from.path, from.name, from.plane, kept.get(), &from.shape);
    const Groups slow = groups_of(groups, 0, matrix.slow());
    const Groups fast = groups_of(groups, 1, matrix.fast());
    Asked asked = asked_of(wanted);
    const Limits limits = {threads_of(threads), REAL(memory)[0], asked.progress};
    unsigned used = limits.threads;
    if (asked.totals) used = reduce(matrix, slow, fast, asked.wanted, limits, asked.of(0), asked.of(1));
    if (asked.medians) used = find_medians(matrix, slow, fast, limits, asked.of(0), asked.of(1));
    RList list({"fast", "slow", "threads"});
    for (int k = 0; k < 2; ++k) {
      if (asked.given[k]) list.set(k, r_results(asked.results[k]));
    }
    list.set(2, r_numbers({used}));
    return list.get();
  });
}

/* The first dataset is that of the values, the others are named. */
static SparseNames sparse_of(SEXP source, SEXP others, const CacheOwner& cache) {
  const Source from = source_of(source);
  return SparseNames{from.path, from.name, string_of(others, 0), string_of(others, 1), from.shape, cache.get()};
}

SEXP ffi_h5_sparse_stats(SEXP source, SEXP others, SEXP extents, SEXP groups, SEXP wanted, SEXP threads, SEXP memory,
                         SEXP cache) {
  return guarded([&] {
    const CacheOwner kept = cache_of(cache);
    const SparseNames where = sparse_of(source, others, kept);
    const std::uint64_t size[] = {static_cast<std::uint64_t>(REAL(extents)[0]),
                                  static_cast<std::uint64_t>(REAL(extents)[1])};
    const Groups major = groups_of(groups, 0, size[0]);
    const Groups minor = groups_of(groups, 1, size[1]);
    Asked asked = asked_of(wanted);
    const Limits limits = {threads_of(threads), REAL(memory)[0], asked.progress};
    if (asked.totals) {
      reduce_sparse(where, size[0], size[1], major, minor, asked.wanted, limits, asked.of(0), asked.of(1));
    }
    if (asked.medians) {
      find_sparse_medians(where, size[0], size[1], major, minor, limits, asked.of(0), asked.of(1));
    }
    RList list({"major", "minor"});
    for (int k = 0; k < 2; ++k) {
      if (asked.given[k]) list.set(k, r_results(asked.results[k]));
    }
    return list.get();
  });
}

SEXP ffi_h5_sparse_read(SEXP source, SEXP others, SEXP extents, SEXP majors, SEXP minors, SEXP threads, SEXP cache) {
  return guarded([&] {
    const CacheOwner kept = cache_of(cache);
    const SparseNames where = sparse_of(source, others, kept);
    const std::uint64_t size[] = {static_cast<std::uint64_t>(REAL(extents)[0]),
                                  static_cast<std::uint64_t>(REAL(extents)[1])};
    const Selection chosen = selection_of(majors, size[0]);
    std::vector<int> to;
    if (minors != R_NilValue) to.assign(INTEGER(minors), INTEGER(minors) + XLENGTH(minors));
    SparsePart part;
    read_sparse(where, size[0], size[1], chosen, to, threads_of(threads), &part);
    RList list({"pointers", "index", "value", "rounded"});
    list.set(0, r_doubles(part.pointers));
    list.set(1, callR([&] {
      SEXP out = Rf_allocVector(INTSXP, static_cast<R_xlen_t>(part.index.size()));
      if (!part.index.empty()) std::copy(part.index.begin(), part.index.end(), INTEGER(out));
      return out;
    }));
    list.set(2, r_doubles(part.value));
    list.set(3, r_logical(part.rounded));
    return list.get();
  });
}

/* `dim` and `chunk` as R has them: rows first, which run along the lines of the file. */
static Plan plan_of(SEXP dim, SEXP chunk, SEXP type, SEXP level, SEXP shuffle) {
  static const Type types[] = {Type::i8,  Type::u8,  Type::i16, Type::u16,
                               Type::i32, Type::u32, Type::f32, Type::f64};
  const std::string word = string_of(type);
  Plan plan;
  plan.type = Type::f16;
  for (Type one : types) {
    if (word == name_of(one)) plan.type = one;
  }
  for (int k = 0; k < 2; ++k) {
    plan.extent[k] = static_cast<std::uint64_t>(REAL(dim)[1 - k]);
    plan.chunk[k] = static_cast<std::uint64_t>(REAL(chunk)[1 - k]);
  }
  plan.level = INTEGER(level)[0];
  plan.shuffle = LOGICAL(shuffle)[0] != 0;
  return plan;
}

SEXP ffi_h5_create(SEXP path, SEXP name, SEXP dim, SEXP chunk, SEXP type, SEXP level, SEXP shuffle) {
  return guarded([&] {
    create_dataset(string_of(path), string_of(name), plan_of(dim, chunk, type, level, shuffle));
    return R_NilValue;
  });
}

SEXP ffi_h5_remove(SEXP path, SEXP name) {
  return guarded([&] {
    remove_dataset(string_of(path), string_of(name));
    return R_NilValue;
  });
}

SEXP ffi_h5_encode(SEXP values, SEXP dim, SEXP chunk, SEXP type, SEXP level, SEXP shuffle) {
  return guarded([&] {
    const Plan plan = plan_of(dim, chunk, type, level, shuffle);
    const Block block = {TYPEOF(values) == REALSXP ? REAL(values) : nullptr,
                         TYPEOF(values) == REALSXP ? nullptr
                         : TYPEOF(values) == LGLSXP ? LOGICAL(values) : INTEGER(values),
                         plan.extent[0], plan.extent[1]};
    const std::vector<std::vector<unsigned char>> chunks = encode_chunks(plan, block);
    return callR([&] {
      SEXP out = PROTECT(Rf_allocVector(VECSXP, static_cast<R_xlen_t>(chunks.size())));
      for (std::size_t i = 0; i < chunks.size(); ++i) {
        SEXP one = Rf_allocVector(RAWSXP, static_cast<R_xlen_t>(chunks[i].size()));
        SET_VECTOR_ELT(out, static_cast<R_xlen_t>(i), one);
        std::copy(chunks[i].begin(), chunks[i].end(), RAW(one));
      }
      UNPROTECT(1);
      return out;
    });
  });
}

SEXP ffi_h5_put(SEXP path, SEXP name, SEXP at, SEXP count, SEXP chunks) {
  return guarded([&] {
    std::uint64_t first[2], many[2];
    for (int k = 0; k < 2; ++k) {
      first[k] = static_cast<std::uint64_t>(REAL(at)[1 - k]);
      many[k] = static_cast<std::uint64_t>(REAL(count)[1 - k]);
    }
    std::vector<StoredChunk> bytes;
    for (R_xlen_t i = 0; i < XLENGTH(chunks); ++i) {
      SEXP one = VECTOR_ELT(chunks, i);
      bytes.push_back(StoredChunk{RAW(one), static_cast<std::size_t>(XLENGTH(one))});
    }
    put_chunks(string_of(path), string_of(name), first, many, bytes);
    return R_NilValue;
  });
}

#else

/* Not a failure of the call: R code says what to install. */
static SEXP absent(void) { return R_NilValue; }

SEXP ffi_h5_about(void) { return absent(); }
SEXP ffi_h5_describe(SEXP, SEXP) { return absent(); }
SEXP ffi_h5_stored(SEXP, SEXP) { return absent(); }
SEXP ffi_h5_check(SEXP) { return absent(); }
SEXP ffi_h5_list(SEXP, SEXP) { return absent(); }
SEXP ffi_h5_values(SEXP, SEXP, SEXP, SEXP) { return absent(); }
SEXP ffi_h5_cache_new(SEXP, SEXP, SEXP, SEXP) { return absent(); }
SEXP ffi_h5_cache_drop(SEXP) { return absent(); }
SEXP ffi_h5_cache_info(SEXP) { return absent(); }
SEXP ffi_h5_cache_changed(SEXP) { return absent(); }
SEXP ffi_h5_read(SEXP, SEXP, SEXP, SEXP, SEXP, SEXP) { return absent(); }
SEXP ffi_h5_stats(SEXP, SEXP, SEXP, SEXP, SEXP, SEXP) { return absent(); }
SEXP ffi_h5_sparse_stats(SEXP, SEXP, SEXP, SEXP, SEXP, SEXP, SEXP, SEXP) { return absent(); }
SEXP ffi_h5_sparse_read(SEXP, SEXP, SEXP, SEXP, SEXP, SEXP, SEXP) { return absent(); }
SEXP ffi_h5_create(SEXP, SEXP, SEXP, SEXP, SEXP, SEXP, SEXP) { return absent(); }
SEXP ffi_h5_remove(SEXP, SEXP) { return absent(); }
SEXP ffi_h5_encode(SEXP, SEXP, SEXP, SEXP, SEXP, SEXP) { return absent(); }
SEXP ffi_h5_put(SEXP, SEXP, SEXP, SEXP, SEXP) { return absent(); }

#endif
