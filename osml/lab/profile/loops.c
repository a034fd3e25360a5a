/* Access patterns whose misses can be computed. Usage: loops PATTERN LINES ROUNDS [OTHER]; a line has 64 bytes. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile char *area;
static uint64_t state = 88172645463325252u;

static uint64_t draw(void) {
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return state;
}

static void sweep(uint64_t first, uint64_t lines, uint64_t step) {
  for (uint64_t i = 0; i < lines; i += step) (void)area[(first + i) * 64];
}

static void chase(uint64_t lines, uint64_t rounds) {
  uint64_t *order = malloc(lines * sizeof *order);
  for (uint64_t i = 0; i < lines; ++i) order[i] = i;
  for (uint64_t i = lines - 1; i > 0; --i) {
    const uint64_t j = draw() % (i + 1), kept = order[i];
    order[i] = order[j];
    order[j] = kept;
  }
  for (uint64_t i = 0; i < lines; ++i)
    *(void *volatile *)(area + order[i] * 64) = (void *)(area + order[(i + 1) % lines] * 64);
  void *at = (void *)(area + order[0] * 64);
  for (uint64_t i = 0; i < lines * rounds; ++i) at = *(void *volatile *)at;
}

int main(int count, char **words) {
  const char *pattern = words[1];
  const uint64_t lines = strtoull(words[2], 0, 10), rounds = strtoull(words[3], 0, 10);
  const uint64_t other = count > 4 ? strtoull(words[4], 0, 10) : 0;
  const size_t bytes = (lines + other + 64) * 64;
  char *raw = mmap(0, bytes + (1 << 20), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  area = (char *)(((uintptr_t)raw + (1 << 20) - 1) & ~(uintptr_t)((1 << 20) - 1));
  if (!strcmp(pattern, "sweep"))
    for (uint64_t r = 0; r < rounds; ++r) sweep(0, lines, 1);
  if (!strcmp(pattern, "stride"))
    for (uint64_t r = 0; r < rounds; ++r) sweep(0, lines, other);
  if (!strcmp(pattern, "random"))
    for (uint64_t r = 0; r < rounds * lines; ++r) (void)area[draw() % lines * 64];
  if (!strcmp(pattern, "nested")) /* four sweeps over the small set, then one over the large one */
    for (uint64_t r = 0; r < rounds; ++r) {
      for (int again = 0; again < 4; ++again) sweep(0, lines, 1);
      sweep(lines, other, 1);
    }
  if (!strcmp(pattern, "write"))
    for (uint64_t r = 0; r < rounds; ++r)
      for (uint64_t i = 0; i < lines; ++i) area[i * 64] = 1;
  if (!strcmp(pattern, "chase")) chase(lines, rounds);
  if (!strcmp(pattern, "fork")) { /* the work is done by a child */
    const pid_t child = fork();
    if (child == 0) {
      for (uint64_t r = 0; r < rounds; ++r) sweep(0, lines, 1);
      _exit(0);
    }
    waitpid(child, 0, 0);
  }
  if (!strcmp(pattern, "daemon")) { /* goes into the background */
    if (fork() == 0) {
      setsid();
      for (;;) sweep(0, lines, 1);
    }
  }
  if (!strcmp(pattern, "forever"))
    for (;;) sweep(0, lines, 1);
  if (!strcmp(pattern, "exec")) { /* another program does the work */
    const pid_t child = fork();
    if (child == 0) execl(words[0], words[0], "sweep", words[2], words[3], (char *)0);
    waitpid(child, 0, 0);
    sweep(0, lines, 1);
    for (uint64_t i = 0; i < 2000000; ++i) draw();
  }
  if (!strcmp(pattern, "die")) abort();
  return !strcmp(pattern, "fail") ? 7 : (int)(state & 0);
}
