/* Preloaded into the agent: its Nth call that changes something below OSML_FAULT_ROOT kills it, or fails.
 * OSML_FAULT_AT counts from 1, OSML_FAULT_ERRNO is the error; without it the process gets SIGKILL before the call.
 * With OSML_FAULT_SCHEDULING, sched_setscheduler of other threads counts as such a call.
 * The number of calls goes to OSML_FAULT_COUNT, a file, so that a first run says how many there are. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

static long calls;

static ssize_t plain_write(int fd, const void *bytes, size_t count) {
  static ssize_t (*real)(int, const void *, size_t);
  if (real == NULL) real = dlsym(RTLD_NEXT, "write");
  return real(fd, bytes, count);
}

static void tell_count(void) {
  const char *path = getenv("OSML_FAULT_COUNT");
  if (path == NULL) return;
  char text[32];
  const int length = snprintf(text, sizeof text, "%ld", calls);
  const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  if (fd < 0) return;
  if (plain_write(fd, text, (size_t)length) < 0) abort();
  close(fd);
}

/* True: the call fails with errno. */
static int strikes(const char *path) {
  const char *root = getenv("OSML_FAULT_ROOT");
  if (root == NULL || strncmp(path, root, strlen(root)) != 0) return 0;
  ++calls;
  tell_count();
  const char *at = getenv("OSML_FAULT_AT");
  if (at == NULL || calls != atol(at)) return 0;
  const char *code = getenv("OSML_FAULT_ERRNO");
  if (code == NULL) kill(getpid(), SIGKILL);
  errno = code == NULL ? EIO : atoi(code);
  return 1;
}

static int strikes_fd(int fd) {
  char link[64];
  char path[PATH_MAX];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  const ssize_t length = readlink(link, path, sizeof path - 1);
  if (length < 0) return 0;
  path[length] = '\0';
  return strikes(path);
}

ssize_t write(int fd, const void *bytes, size_t count) { return strikes_fd(fd) ? -1 : plain_write(fd, bytes, count); }

int fsync(int fd) {
  static int (*real)(int);
  if (real == NULL) real = dlsym(RTLD_NEXT, "fsync");
  return strikes_fd(fd) ? -1 : real(fd);
}

int mkdir(const char *path, mode_t mode) {
  static int (*real)(const char *, mode_t);
  if (real == NULL) real = dlsym(RTLD_NEXT, "mkdir");
  return strikes(path) ? -1 : real(path, mode);
}

int rmdir(const char *path) {
  static int (*real)(const char *);
  if (real == NULL) real = dlsym(RTLD_NEXT, "rmdir");
  return strikes(path) ? -1 : real(path);
}

int rename(const char *from, const char *to) {
  static int (*real)(const char *, const char *);
  if (real == NULL) real = dlsym(RTLD_NEXT, "rename");
  return strikes(from) ? -1 : real(from, to);
}

int sched_setscheduler(pid_t tid, int policy, const struct sched_param *param) {
  static int (*real)(pid_t, int, const struct sched_param *);
  if (real == NULL) real = dlsym(RTLD_NEXT, "sched_setscheduler");
  const char *root = getenv("OSML_FAULT_ROOT");
  const int counts = tid != 0 && root != NULL && getenv("OSML_FAULT_SCHEDULING") != NULL;
  return counts && strikes(root) ? -1 : real(tid, policy, param);
}
