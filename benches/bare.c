/* The least a program can do to read a file: a loop around pread(2), nothing recorded.
   usage: bare FILE RECORD MILLISECONDS
   Prints: operations, wall nanoseconds, CPU nanoseconds (user and system). */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static long long wall_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static long long cpu_ns(void) {
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1000000000LL + (u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1000LL;
}

int main(int argc, char **argv) {
    if (argc != 4) return 2;
    size_t record = strtoull(argv[2], 0, 10);
    long long limit = strtoll(argv[3], 0, 10) * 1000000LL;
    int fd = open(argv[1], O_RDONLY);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) != 0) { perror(argv[1]); return 1; }
    char *buffer;
    if (posix_memalign((void **)&buffer, 4096, record < 4096 ? 4096 : record)) return 1;
    memset(buffer, 1, record);
    long long ops = 0, cpu = cpu_ns(), start = wall_ns(), now;
    do { /* whole passes, as the probe makes them; the clock is read between passes only */
        for (off_t at = 0; at + (off_t)record <= st.st_size; at += (off_t)record) {
            if (pread(fd, buffer, record, at) != (ssize_t)record) { perror("pread"); return 1; }
            ops++;
        }
        now = wall_ns();
    } while (now - start < limit);
    printf("%lld %lld %lld\n", ops, now - start, cpu_ns() - cpu);
    return 0;
}
