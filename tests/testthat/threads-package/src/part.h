#ifndef REGATTA_TESTS_PART_H
#define REGATTA_TESTS_PART_H

// What each shared object offers to the others, whatever it was compiled by: functions only.
typedef void (*Body)(void* data, int i);

// What a call has ended with.
enum End { complete, failed, failed_with_error, interrupted, other_end };

struct Part {
  const char* abi;
  const void* (*process)();
  void (*set_interrupted)(bool (*interrupted)());
  End (*loop)(int n, Body body, void* data);
  End (*tasks)(int n, Body body, void* data);
  // Cancelled by the body of the index `at`; returns whether later bodies were left out.
  bool (*cancelled)(int n, int at, Body body, void* data);
  // Without a look at what comes out.
  void (*open_loop)(int n, Body body, void* data);
  void (*fail)(End how);
  // Tasks in the background, their end, and dropping those that have not begun.
  void (*push)(int n, Body body, void* data);
  End (*wait)();
  void (*cancel)();
};

#endif
