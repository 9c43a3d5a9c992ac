#include <R_ext/Rdynload.h>
#include <Rinternals.h>

#include "char-map.h"
#include "cluster-slots.h"
#include "cluster-worker.h"
#include "encode.h"
#include "evaluator.h"
#include "fork-pool.h"
#include "h5-entry.h"
#include "posix-sem.h"
#include "posix-shm.h"
#include "regatta-info.h"
#include "rng.h"
#include "shm-array.h"
#include "shm-columns.h"
#include "shm-share.h"
#include "shm-string.h"
#include "shm-vector.h"
#include "shm-wrapper.h"
#include "socket-entry.h"
#include "system.h"
#include "sys-fork.h"
#include "threads-share.h"
#include "workers-available.h"

#define ENTRY(name, arguments) {#name, (DL_FUNC)&name, arguments}

static const R_CallMethodDef entries[] = {
    ENTRY(ffi_char_map, 1),
    ENTRY(ffi_char_map_expand, 1),
    ENTRY(ffi_clock, 0),
    ENTRY(ffi_cluster_decode, 2),
    ENTRY(ffi_cluster_send_at_once, 1),
    ENTRY(ffi_cluster_slots_interrupt, 4),
    ENTRY(ffi_cluster_slots_new, 2),
    ENTRY(ffi_cluster_slots_running, 2),
    ENTRY(ffi_cluster_worker_batch, 5),
    ENTRY(ffi_cluster_worker_begin, 2),
    ENTRY(ffi_cluster_worker_divert, 0),
    ENTRY(ffi_cluster_worker_end, 0),
    ENTRY(ffi_cluster_worker_restore, 0),
    ENTRY(ffi_compress_chars, 5),
    ENTRY(ffi_encode_is_foreign, 1),
    ENTRY(ffi_evaluator_begin, 1),
    ENTRY(ffi_evaluator_cancelled, 0),
    ENTRY(ffi_evaluator_condition, 2),
    ENTRY(ffi_evaluator_error, 1),
    ENTRY(ffi_evaluator_is_copy, 0),
    ENTRY(ffi_evaluator_note, 1),
    ENTRY(ffi_evaluator_run, 2),
    ENTRY(ffi_fork_poll, 2),
    ENTRY(ffi_fork_pool_create, 3),
    ENTRY(ffi_fork_pool_guard, 3),
    ENTRY(ffi_fork_pool_limit, 2),
    ENTRY(ffi_fork_pool_running, 1),
    ENTRY(ffi_fork_pool_signal, 3),
    ENTRY(ffi_fork_pool_stop, 1),
    ENTRY(ffi_fork_pool_submit, 2),
    ENTRY(ffi_fork_pool_withdraw, 2),
    ENTRY(ffi_fork_pool_tasks, 2),
    ENTRY(ffi_fork_worker_exit, 1),
    ENTRY(ffi_fork_worker_silence, 1),
    ENTRY(ffi_fork_worker_spawn, 4),
    ENTRY(ffi_h5_about, 0),
    ENTRY(ffi_h5_describe, 2),
    ENTRY(ffi_h5_list, 2),
    ENTRY(ffi_h5_read, 7),
    ENTRY(ffi_h5_sparse_stats, 7),
    ENTRY(ffi_h5_stats, 8),
    ENTRY(ffi_h5_values, 3),
    ENTRY(ffi_memory_anon, 1),
    ENTRY(ffi_memory_keep_freed, 0),
    ENTRY(ffi_memory_malloced, 0),
    ENTRY(ffi_memory_oom_kills, 0),
    ENTRY(ffi_posix_sem_close, 1),
    ENTRY(ffi_posix_sem_open, 4),
    ENTRY(ffi_posix_sem_post, 1),
    ENTRY(ffi_posix_sem_unlink, 1),
    ENTRY(ffi_posix_sem_wait, 1),
    ENTRY(ffi_posix_shm_altrep, 1),
    ENTRY(ffi_posix_shm_read, 5),
    ENTRY(ffi_posix_shm_unit, 1),
    ENTRY(ffi_posix_shm_unlink, 1),
    ENTRY(ffi_posix_shm_write, 3),
    ENTRY(ffi_regatta_info_limits, 1),
    ENTRY(ffi_regatta_info_memory, 1),
    ENTRY(ffi_regatta_info_process, 0),
    ENTRY(ffi_rng_base_number, 1),
    ENTRY(ffi_rng_base_state, 2),
    ENTRY(ffi_rng_stream, 3),
    ENTRY(ffi_semv_create, 1),
    ENTRY(ffi_semv_operate, 4),
    ENTRY(ffi_semv_remove, 1),
    ENTRY(ffi_shm_array_assign, 4),
    ENTRY(ffi_shm_array_fill, 2),
    ENTRY(ffi_shm_array_has_lost_class, 1),
    ENTRY(ffi_shm_array_is, 1),
    ENTRY(ffi_shm_array_new, 5),
    ENTRY(ffi_shm_array_plain, 1),
    ENTRY(ffi_shm_array_reserve, 1),
    ENTRY(ffi_shm_array_write, 3),
    ENTRY(ffi_shm_columns_drop, 1),
    ENTRY(ffi_shm_columns_new, 3),
    ENTRY(ffi_shm_columns_vector, 4),
    ENTRY(ffi_shm_columns_write, 3),
    ENTRY(ffi_shm_copy, 1),
    ENTRY(ffi_shm_counter_add, 2),
    ENTRY(ffi_shm_counter_new, 2),
    ENTRY(ffi_shm_counter_value, 1),
    ENTRY(ffi_shm_info, 0),
    ENTRY(ffi_shm_is, 1),
    ENTRY(ffi_shm_lock_new, 1),
    ENTRY(ffi_shm_lock_with, 5),
    ENTRY(ffi_shm_peer_is_near, 1),
    ENTRY(ffi_shm_share, 3),
    ENTRY(ffi_shm_wrapped, 2),
    ENTRY(ffi_socket_about, 1),
    ENTRY(ffi_socket_accept, 3),
    ENTRY(ffi_socket_close, 1),
    ENTRY(ffi_socket_connect, 5),
    ENTRY(ffi_socket_listen, 5),
    ENTRY(ffi_socket_read, 2),
    ENTRY(ffi_socket_receive, 2),
    ENTRY(ffi_socket_select, 3),
    ENTRY(ffi_socket_send, 2),
    ENTRY(ffi_socket_timeout, 2),
    ENTRY(ffi_socket_write, 2),
    ENTRY(ffi_system_hold_interrupts, 2),
    ENTRY(ffi_system_message, 1),
    ENTRY(ffi_threads_share, 1),
    ENTRY(ffi_threads_share_now, 0),
    ENTRY(ffi_threads_share_settle, 0),
    ENTRY(ffi_uncompress_chars, 2),
    ENTRY(ffi_workers_available, 1),
    {NULL, NULL, 0},
};

void R_init_regatta(DllInfo *dll) {
  R_registerRoutines(dll, NULL, entries, NULL, NULL);
  R_useDynamicSymbols(dll, FALSE);
  R_forceSymbols(dll, TRUE);
  rg_fork_watch();
  rg_shm_vector_init(dll);
  rg_shm_string_init(dll);
}
