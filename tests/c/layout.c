#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arena.h"
#include "cluster-bytes.h"
#include "control.h"
#include "encode-bytes.h"
#include "fork-bytes.h"
#include "frame.h"
#include "handshake.h"
#include "link.h"
#include "log.h"
#include "shm-bytes.h"

/* ./layout DOCUMENT: prints the tables of shared structures that docs/DOCUMENT.md has, with the offsets that the
   compiler says. A member that is missing here leaves a gap, and a gap is an error. The numbers that the words
   tell of are asserted. */

_Static_assert(RG_RECORD_SKIP == 0 && RG_RECORD_VALUE == 1 && RG_RECORD_ERROR == 2 && RG_RECORD_CONDITION == 3 &&
                   RG_RECORD_SUPPRESSED == 4 && RG_RECORD_OUTPUT == 5 && RG_RECORD_LAST == 5,
               "types of records");
_Static_assert(RG_RECORD_STORED == 1 && RG_RECORD_PART == 2, "flags of records");
_Static_assert(RG_LEFT == 1 && RG_LEFT_ALONE == 2 && RG_LEFT_FINISHED == 3, "how a worker leaves a run");
_Static_assert(RG_FREE_EMPTY == 0 && RG_FREE_BUSY == 1 && RG_FREE_OPEN == 2, "entries of the list of free spans");
_Static_assert(RG_SERVER_FORK == 1 && RG_SERVER_COLLECT == 2 && RG_MEMBER_RUN == 1 && RG_MEMBER_CALL == 2,
               "what a server and its workers are asked for");
_Static_assert(RG_RUN_CONTROL == 0 && RG_RUN_CODE == 1 && RG_RUN_DOORBELL == 2 && RG_RUN_WAKE == 3 &&
                   RG_RUN_ARENA == 4 && RG_RUN_SPANS == 5 && RG_RUN_STDOUT == 6 && RG_RUN_STDERR == 7 &&
                   RG_RUN_STDOUT_READER == 8 && RG_RUN_STDERR_READER == 9 && RG_RUN_FILES == 10,
               "descriptors that come with a run");
_Static_assert(RG_CLUSTER_CANCEL_ALL == -1 && RG_CLUSTER_MAGIC == 0x31465252, "what nodes say");
_Static_assert(RG_LIVE_NOT == 0 && RG_LIVE_ARRAY == 1 && RG_LIVE_LOCK == 2 && RG_LIVE_COUNTER == 3 &&
                   RG_LIVE_SLOTS == 4 && RG_LIVE_KINDS == 5,
               "what is written in place");

typedef struct {
  size_t offset, size;
  const char *what, *writer;
} field;

#define FIELD(type, member, what, writer) \
  { offsetof(type, member), sizeof(((type *)0)->member), what, writer }

static const char *structure;
static size_t expected;

static void open_table(const char *name, const char *words, size_t size) {
  structure = name;
  expected = 0;
  printf("**`%s`** (%zu bytes): %s.\n\n", name, size, words);
  printf("| offset | bytes | | written by |\n|---|---|---|---|\n");
}

static void row(field f) {
  if (f.offset < expected || f.offset - expected >= 8) {
    fprintf(stderr, "layout: %s has something else at %zu\n", structure, expected);
    exit(1);
  }
  printf("| %zu | %zu | %s | %s |\n", f.offset, f.size, f.what, f.writer);
  expected = f.offset + f.size;
}

static void close_table(size_t size, size_t alignment) {
  if (size - expected >= (alignment < 8 ? 8 : alignment)) {
    fprintf(stderr, "layout: %s has something after %zu\n", structure, expected);
    exit(1);
  }
  printf("\n");
}

#define TABLE(type, words, ...)                                                \
  do {                                                                         \
    const field fields[] = {__VA_ARGS__};                                      \
    open_table(#type, words, sizeof(type));                                    \
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) row(fields[i]); \
    close_table(sizeof(type), _Alignof(type));                                 \
  } while (0)

static void print_architecture(void) {
  TABLE(rg_control_shared, "what all of a run share",
        FIELD(rg_control_shared, active, "slots at and above this number claim nothing more",
              "parent"),
        FIELD(rg_control_shared, rung, "a worker has news that the parent has not looked at", "both"),
        FIELD(rg_control_shared, parent_asleep, "the parent sleeps, or is about to", "both"),
        FIELD(rg_control_shared, over, "workers that outlive the run leave it", "parent"),
        FIELD(rg_control_shared, lock, "the lock of the queue, robust", "both"),
        FIELD(rg_control_shared, journal, "`rg_journal`: what the holder of the lock is about to do",
              "under the lock"),
        FIELD(rg_control_shared, head, "the first place of `order` that is not claimed",
              "under the lock"),
        FIELD(rg_control_shared, tail, "the place after the last", "under the lock"),
        FIELD(rg_control_shared, layout, "which version of the package this is, once the rest is there", "parent"),
        FIELD(rg_control_shared, elements, "how many elements the run has", "parent"),
        FIELD(rg_control_shared, since, "when it began, monotonic ns", "parent"),
        FIELD(rg_control_shared, workers, "how many slots", "parent"),
        FIELD(rg_control_shared, owner, "the process that has made it", "parent"),
        FIELD(rg_control_shared, verb, "the function that was called", "parent"));
  TABLE(rg_journal, "once it is armed it will be done, if not by the holder of the lock then by whoever takes it next",
        FIELD(rg_journal, armed, "1: it is to be done", "under the lock"),
        FIELD(rg_journal, worker, "whose claim it is", "likewise"),
        FIELD(rg_journal, claim_size, "size of the claim then", "likewise"),
        FIELD(rg_journal, claim_done, "how many of it have begun", "likewise"),
        FIELD(rg_journal, head, "the first place of `order` that is not claimed then", "likewise"));
  TABLE(rg_task, "the last try of an element; the record of a run is made from it",
        FIELD(rg_task, start, "start, monotonic ns; 0: never begun", "the worker that runs it"),
        FIELD(rg_task, end, "end, monotonic ns; 0: not finished", "likewise"),
        FIELD(rg_task, bytes, "size of the encoded result", "likewise"),
        FIELD(rg_task, worker, "worker", "likewise"),
        FIELD(rg_task, tries, "which try it is", "parent, before it is queued"),
        FIELD(rg_task, cpu, "processor time in seconds, a float", "the worker that runs it"),
        FIELD(rg_task, peak, "largest resident set meanwhile, a float; 0: not measured", "likewise"));
  TABLE(rg_slot, "one for each worker",
        FIELD(rg_slot, current, "element being run, -1 between elements", "worker"),
        FIELD(rg_slot, begun, "how many elements it has begun, retries too", "worker"),
        FIELD(rg_slot, ended, "ends of elements that workers here have sent", "worker"),
        FIELD(rg_slot, started, "when the element began, monotonic ns", "worker"),
        FIELD(rg_slot, cpu_started, "the worker's CPU ns then", "worker"),
        FIELD(rg_slot, peak, "the largest resident set that it has found with elements", "worker"),
        FIELD(rg_slot, cancel, "what is to be interrupted: element * 65536 + try, -1 none", "parent; worker when it was"),
        FIELD(rg_slot, ended_by, "signal on which the worker has ended its group and itself",
              "worker"),
        FIELD(rg_slot, held, "it claims nothing more; a successor neither", "parent"),
        FIELD(rg_slot, waiting, "the worker sleeps until it is woken", "both"),
        FIELD(rg_slot, damaged, "it has found in its ring what it has not written", "worker"),
        FIELD(rg_slot, left, "of one that outlives the run: 1 it has done with it, 2 nothing is to be ended first; 3: another ends, as there is no more work", "worker"),
        FIELD(rg_slot, draining, "for each stream: it is being read", "parent"),
        FIELD(rg_slot, drained, "for each stream: bytes read from it", "parent"),
        FIELD(rg_slot, pid, "the worker that is or was here last; 0: none yet", "parent"),
        FIELD(rg_slot, claim_size, "size of the claim", "worker; parent after its death"),
        FIELD(rg_slot, claim_done, "how many of it have begun", "likewise"),
        FIELD(rg_slot, claim, "the claimed elements", "worker"),
        FIELD(rg_slot, crash, "backtrace of a crash", "worker"),
        FIELD(rg_slot, ring, "`rg_ring`", "see there"));
  TABLE(rg_ring, "records on their way to the parent",
        FIELD(rg_ring, head, "bytes ever produced", "worker"),
        FIELD(rg_ring, tail, "bytes ever consumed", "parent"),
        FIELD(rg_ring, bytes, "records", "worker"));
  TABLE(rg_record, "the header of a record; its payload follows",
        FIELD(rg_record, size, "size of header and payload, a multiple of 8", "worker"),
        FIELD(rg_record, type, "0 skip, 1 value, 2 error, 3 condition, 4 suppressed, 5 output",
              "worker"),
        FIELD(rg_record, flags,
              "1: the payload is stored in the arena; 2: it goes on in the next record", "worker"),
        FIELD(rg_record, kind, "of a condition: 0 message, 1 warning, 2 other; of an error: 1, its message alone", "worker"),
        FIELD(rg_record, unused, "0", "worker"),
        FIELD(rg_record, element, "element", "worker"),
        FIELD(rg_record, tries, "try", "worker"),
        FIELD(rg_record, payload, "bytes of the payload", "worker"),
        FIELD(rg_record, header_sum, "checksum of all that stands before", "worker"),
        FIELD(rg_record, payload_sum, "checksum of the payload", "worker"));
  TABLE(rg_stored, "the payload of a record whose own is stored in the arena",
        FIELD(rg_stored, span.offset, "where it stands in the file, a multiple of the page size", "worker"),
        FIELD(rg_stored, span.size, "size of the span in bytes", "worker"),
        FIELD(rg_stored, size, "size of the payload in bytes", "worker"));
  TABLE(rg_arena_shared, "what owner and workers know of the arena",
        FIELD(rg_arena_shared, end, "end of the file in use", "both"),
        FIELD(rg_arena_shared, used, "bytes in spans that are not free", "both"),
        FIELD(rg_arena_shared, warm, "bytes in the list of free spans", "both"),
        FIELD(rg_arena_shared, free, "the list, 1024 times `rg_free_entry`",
              "who has taken the entry by compare-and-swap of its state"));
  TABLE(rg_free_entry, "a span that is free",
        FIELD(rg_free_entry, state, "0: nothing, 1: taken, 2: a span", "both, by compare-and-swap"),
        FIELD(rg_free_entry, sum, "checksum of the span", "who has taken the entry"),
        FIELD(rg_free_entry, span.offset, "where it stands in the file, a multiple of the page size", "likewise"),
        FIELD(rg_free_entry, span.size, "its size in bytes", "likewise"));
  TABLE(rg_server_request, "what a fork server is asked for, on the line that it has inherited",
        FIELD(rg_server_request, verb, "1 fork a worker, 2 collect one", "session"),
        FIELD(rg_server_request, pid, "of the one that is to be collected", "session"),
        FIELD(rg_server_request, tag, "part of the mark of the one that is forked, whose line comes with it",
              "session"));
  TABLE(rg_server_reply, "what it answers",
        FIELD(rg_server_reply, pid, "forked; 0: nothing was", "server"),
        FIELD(rg_server_reply, error, "the errno that says why", "server"),
        FIELD(rg_server_reply, ended, "1: it has ended, and was collected", "server"),
        FIELD(rg_server_reply, end.signal, "the signal that ended it, 0: none", "server"),
        FIELD(rg_server_reply, end.status, "else its status", "server"),
        FIELD(rg_server_reply, end.peak_bytes, "its largest resident set, -1 if unknown", "server"));
  TABLE(rg_member_message, "what a worker that stands ready is to do; the bytes of a call follow",
        FIELD(rg_member_message, verb, "1 take part in a run, 2 evaluate a call", "session"),
        FIELD(rg_member_message, place, "its slot in the run", "session"),
        FIELD(rg_member_message, size, "bytes that follow, or are in the file of the code", "session"),
        FIELD(rg_member_message, elements, "elements of the run", "session"),
        FIELD(rg_member_message, batch, "size of batches; 0: they grow with the measured time", "session"),
        FIELD(rg_member_message, share_from, "vectors of so many bytes go to the arena", "session"),
        FIELD(rg_member_message, limit, "most bytes of the arena in use", "session"),
        FIELD(rg_member_message, workers, "slots of the run", "session"),
        FIELD(rg_member_message, wants_cpu, "1: it notes the CPU time at which an element begins", "session"),
        FIELD(rg_member_message, cores, "of the budget; 0: there is none", "session"),
        FIELD(rg_member_message, low, "1: of low priority in it", "session"),
        FIELD(rg_member_message, files,
              "a bit for each descriptor that comes with it: 0 control block, 1 code, 2 doorbell, 3 wake-up, "
              "4 and 5 arena, 6 and 7 stdout and stderr, 8 and 9 their other ends", "session"),
        FIELD(rg_member_message, owner, "the process that has the arena", "session"),
        FIELD(rg_member_message, arena_tag, "tag of the arena", "session"));
  TABLE(rg_cluster_slot, "what the worker of a cluster does that shares memory with the session",
        FIELD(rg_cluster_slot, current, "element being run, from 1; 0 between elements", "worker"),
        FIELD(rg_cluster_slot, try, "which try of it", "worker, before `current`"),
        FIELD(rg_cluster_slot, last, "the element that was begun last, 0: none", "worker"),
        FIELD(rg_cluster_slot, cancel, "the element that is to be interrupted, 0: none, -1: any",
              "session; worker when it was"),
        FIELD(rg_cluster_slot, started, "when the element began, monotonic ns", "worker"),
        FIELD(rg_cluster_slot, cpu_started, "the worker's CPU ns then", "worker"),
        FIELD(rg_cluster_slot, signalled, "0 from before `cancel` is set until the interrupt was sent", "session"));
  TABLE(rg_cluster_frame, "stands before what a node of package parallel tells of an element; numbers in its own order",
        FIELD(rg_cluster_frame, magic, "`RRF1`", "node"), FIELD(rg_cluster_frame, type, "as in `rg_record`", "node"),
        FIELD(rg_cluster_frame, kind, "likewise", "node"), FIELD(rg_cluster_frame, tries, "which try it is", "node"),
        FIELD(rg_cluster_frame, index, "element, from 1, a double", "node"),
        FIELD(rg_cluster_frame, times, "when it began and ended, in seconds, doubles", "node"),
        FIELD(rg_cluster_frame, size, "bytes of the payload, which follows", "node"),
        FIELD(rg_cluster_frame, token, "of the batch that it belongs to", "node"));
  TABLE(rg_frame_header, "stands before a message on a socket; numbers have their lowest byte first",
        FIELD(rg_frame_header, magic, "`rgf1`", "sender"),
        FIELD(rg_frame_header, type, "1 bytes, 2 an R object, 3 `rg_link_beat`", "sender"),
        FIELD(rg_frame_header, unused, "0", "sender"),
        FIELD(rg_frame_header, length, "bytes of the payload, which follows", "sender"));
  TABLE(rg_link_beat, "what one end of a link tells the other of itself",
        FIELD(rg_link_beat, cpu_ns, "CPU ns of the process", "sender"),
        FIELD(rg_link_beat, memory, "resident bytes", "sender"));
  TABLE(rg_handshake_challenge, "the first message of a handshake",
        FIELD(rg_handshake_challenge, magic, "`rgchal1`, 0", "session"),
        FIELD(rg_handshake_challenge, nonce, "random bytes", "session"));
  TABLE(rg_handshake_response, "the second",
        FIELD(rg_handshake_response, magic, "`rgnode1`, 0", "node"),
        FIELD(rg_handshake_response, number, "number of the node", "node"),
        FIELD(rg_handshake_response, nonce, "random bytes", "node"),
        FIELD(rg_handshake_response, proof,
              "HMAC-SHA256 of `regatta node` in 16 bytes, both nonces, number", "node"));
  TABLE(rg_handshake_verdict, "the third",
        FIELD(rg_handshake_verdict, magic, "`rgsess1`, 0", "session"),
        FIELD(rg_handshake_verdict, proof, "the same with `regatta session`", "session"));
  TABLE(rg_log_header, "stands before each record of a log; its payload follows",
        FIELD(rg_log_header, mark, "`rgtlog1` and a line feed", "who has the lock of the log"),
        FIELD(rg_log_header, offset, "where in the file this header stands", "likewise"),
        FIELD(rg_log_header, size, "bytes of the payload", "likewise"),
        FIELD(rg_log_header, key, "by which the record is found", "likewise"),
        FIELD(rg_log_header, index, "element, from 1; 0: of none", "likewise"),
        FIELD(rg_log_header, type, "what the payload is; not 0", "likewise"),
        FIELD(rg_log_header, payload_sum, "checksum of the payload", "likewise"),
        FIELD(rg_log_header, header_sum, "checksum of all other members", "likewise"),
        FIELD(rg_log_header, unused, "0", "likewise"));
}

/* Encoded values are written byte after byte: no structure has offsets for them. */
static void print_encoded_value(void) {
  printf("**Encoded value**: the first byte says how it goes on.\n\n| byte | then |\n|---|---|\n");
  printf("| `%c` | nothing: `NULL` |\n", RG_ENCODE_NULL);
  printf("| `%c` | type (1), length (8), elements: an atomic vector without attributes, up to %d KiB |\n",
         RG_ENCODE_ATOMIC, RG_ENCODE_PLAIN_MAX / 1024);
  printf("| `%c` | length (8), then for each string its length (4, -1 for `NA`), encoding (1) and bytes |\n",
         RG_ENCODE_STRINGS);
  printf("| `%c` | R's serialisation, version 3, native binary; each large vector in it is a handle |\n",
         RG_ENCODE_SERIALISED);
}

/* The parts of stored strings have no offsets that are the same for all vectors: what the words say is asked of
   vectors with and without numbers. */
static void check_strings(int64_t length, int64_t distinct, int64_t indexed) {
  const rg_string_header header = {RG_STRING_MAGIC, length, distinct, 100, indexed};
  const rg_string_layout at = rg_string_layout_of(&header);
  const int64_t numbers = indexed ? (4 * length + 7) / 8 * 8 : 0;
  if (at.numbers != sizeof header || at.ends != at.numbers + numbers || at.encodings != at.ends + 8 * distinct ||
      at.text != at.encodings + (distinct + 7) / 8 * 8 || at.size != at.text + 100) {
    fprintf(stderr, "layout: stored strings have other parts\n");
    exit(1);
  }
}

static void print_strings(void) {
  for (int64_t n = 0; n < 20; n++) {
    for (int64_t d = 0; d <= n; d++) check_strings(n, d, 1);
    check_strings(n, n, 0);
  }
  printf("**Strings**: after the header, each part follows the one before it.\n\n| bytes | |\n|---|---|\n");
  printf("| 4 n, to a multiple of 8 | the number of its string for each element, from 0; left out without numbers |\n");
  printf("| 8 d | where each string ends in the text |\n");
  printf("| d, to a multiple of 8 | encoding of each: R's `cetype_t`; 16 or 17 for text that is not marked and was "
         "stored in a UTF-8 or Latin-1 locale; 255 for `NA` (`src/string-encoding.h`) |\n");
  printf("| the rest | the text, without separators |\n");
}

static void print_shared_memory(void) {
  TABLE(rg_region_header, "the first of a region's pages begins with it",
        FIELD(rg_region_header, magic, "`regatta1`", "who makes the region"),
        FIELD(rg_region_header, tag, "tag, random", "likewise"),
        FIELD(rg_region_header, size, "size of the data in bytes", "likewise"),
        FIELD(rg_region_header, frozen, "1: frozen; 0: an array, a lock or a counter", "likewise"));
  TABLE(rg_string_header, "a character vector begins with it",
        FIELD(rg_string_header, magic, "`strings1`", "who shares the vector"),
        FIELD(rg_string_header, length, "elements, n", "likewise"),
        FIELD(rg_string_header, distinct, "distinct strings, d", "likewise"),
        FIELD(rg_string_header, text, "bytes of text", "likewise"),
        FIELD(rg_string_header, indexed, "1: there are numbers; 0: d = n, and element i is string i", "likewise"));
  TABLE(rg_handle, "what R's serialisation has as the state of a shared vector",
        FIELD(rg_handle, form, "`RGHA`: in the arena; `RGHR`: in a region", "sender"),
        FIELD(rg_handle, type, "R's type", "sender"),
        FIELD(rg_handle, length, "number of elements", "sender"),
        FIELD(rg_handle, offset, "offset of the part in arena or data, a multiple of the page size", "sender"),
        FIELD(rg_handle, size, "size of the part in bytes", "sender"),
        FIELD(rg_handle, live,
              "what is written in place, 0: nothing, 1: an array, 2: a lock, 3: a counter, 4: what the nodes of a cluster do",
              "sender"),
        FIELD(rg_handle, key.pid, "process that has the region", "sender"),
        FIELD(rg_handle, key.fd, "its descriptor", "sender"),
        FIELD(rg_handle, key.device, "device of the file", "sender"),
        FIELD(rg_handle, key.inode, "inode of the file", "sender"),
        FIELD(rg_handle, key.tag, "tag of region or arena", "sender"),
        FIELD(rg_handle, key.host, "boot of the machine: FNV-1a of `/proc/sys/kernel/random/boot_id`", "sender"),
        FIELD(rg_handle, key.size, "size of the region's data in bytes", "sender"));
}

int main(int count, char **arguments) {
  const char *document = count == 2 ? arguments[1] : "";
  if (strcmp(document, "ARCHITECTURE") == 0) {
    print_architecture();
    print_encoded_value();
  } else if (strcmp(document, "SHARED-MEMORY") == 0) {
    print_shared_memory();
    print_strings();
  } else {
    fprintf(stderr, "layout: it has no tables of \"%s\"\n", document);
    return 2;
  }
  return 0;
}
