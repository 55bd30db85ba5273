/* The least a program can pay to read or write a file: a bare loop of pread(2) or pwrite(2),
 * nothing timed inside it.
 *
 * Usage: bare FILE RECORD turns read|write|rand-write
 * Works in turns. For each line "LEAD_IN NS" on standard input it works for LEAD_IN nanoseconds
 * that do not count, then for NS, and prints the line described below. It goes on over FILE, whose
 * size is a multiple of RECORD, where the last turn has ended. Writes are of one buffer, over the
 * file in order or in a random order. The clock is read every 64 operations.
 *
 * Usage: bare FILE RECORD SECONDS [libc|stdio|mmap]
 * Reads FILE from its start in records of RECORD bytes, over and over, for at least SECONDS
 * of wall time after as long a warm-up, and prints one line:
 *     ops=N wall_ns=X cpu_ns=Y
 * where X and Y are nanoseconds an operation: CLOCK_MONOTONIC, and user + system time of this
 * process (getrusage). The clocks are read once a pass over the file.
 *
 * The system call is made in the loop itself. With `libc` it goes through the C library's pread(),
 * whose return after a system call costs much on CPUs with a flushed return predictor (110 ns of
 * 460 on the AMD EPYC guest where this was written), so the probe would be compared with an easier
 * opponent.
 *
 * With `stdio` it is fread(3) with a buffer of one record, with `mmap` a memcpy(3) from a private
 * mapping made for each pass, as the probe's engines of these names do.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static double wall(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static double cpu(void)
{
    struct rusage r;
    getrusage(RUSAGE_SELF, &r);
    return (double)(r.ru_utime.tv_sec + r.ru_stime.tv_sec) * 1e9 +
           (double)(r.ru_utime.tv_usec + r.ru_stime.tv_usec) * 1e3;
}

static inline long direct_pread(int fd, void *buffer, size_t count, long offset)
{
#if defined(__x86_64__)
    long result;
    register long r10 __asm__("r10") = offset;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "0"((long)SYS_pread64), "D"((long)fd), "S"(buffer), "d"(count), "r"(r10)
                     : "rcx", "r11", "memory");
    return result;
#else
    return syscall(SYS_pread64, fd, buffer, count, offset);
#endif
}

static inline long direct_pwrite(int fd, const void *buffer, size_t count, long offset)
{
#if defined(__x86_64__)
    long result;
    register long r10 __asm__("r10") = offset;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "0"((long)SYS_pwrite64), "D"((long)fd), "S"(buffer), "d"(count), "r"(r10)
                     : "rcx", "r11", "memory");
    return result;
#else
    return syscall(SYS_pwrite64, fd, buffer, count, offset);
#endif
}

/* What turns go over. */
struct work {
    int fd, writes;
    char *buffer;
    long record, count;
    long at;     /* the next operation */
    long *order; /* NULL: one record after the other */
};

/* Operations done in about ns nanoseconds; -1 when one fell short. */
static long work_for(struct work *w, double ns)
{
    long ops = 0;
    for (double start = wall(); wall() - start < ns;) {
        for (int i = 0; i < 64; i++, ops++) {
            long offset = (w->order ? w->order[w->at] : w->at) * w->record;
            size_t record = (size_t)w->record;
            long done = w->writes ? direct_pwrite(w->fd, w->buffer, record, offset)
                                  : direct_pread(w->fd, w->buffer, record, offset);
            if (done != w->record)
                return -1;
            if (++w->at == w->count)
                w->at = 0;
        }
    }
    return ops;
}

static int turns(struct work *w)
{
    double lead_in, ns;
    while (scanf("%lf %lf", &lead_in, &ns) == 2) {
        long before = work_for(w, lead_in);
        double wall0 = wall(), cpu0 = cpu();
        long ops = work_for(w, ns);
        if (before < 0 || ops <= 0) {
            fprintf(stderr, "bare: an operation fell short\n");
            return 1;
        }
        double elapsed = wall() - wall0, used = cpu() - cpu0;
        printf("ops=%ld wall_ns=%.2f cpu_ns=%.2f\n", ops, elapsed / (double)ops, used / (double)ops);
        fflush(stdout);
    }
    return 0;
}

/* Each record once, in an order of its own in each process. */
static long *shuffled(long count)
{
    long *order = malloc((size_t)count * sizeof *order);
    if (!order)
        return NULL;
    srand48(getpid());
    for (long i = 0; i < count; i++) {
        long other = lrand48() % (i + 1);
        order[i] = order[other];
        order[other] = i;
    }
    return order;
}

/* One pass with the system call in the loop; 0 when a read fell short. */
static int pass_direct(int fd, char *buffer, long record, long count)
{
    for (long i = 0; i < count; i++)
        if (direct_pread(fd, buffer, (size_t)record, i * record) != record)
            return 0;
    return 1;
}

/* The same through the C library. */
static int pass_libc(int fd, char *buffer, long record, long count)
{
    for (long i = 0; i < count; i++)
        if (pread(fd, buffer, (size_t)record, i * record) != record)
            return 0;
    return 1;
}

static int pass_stdio(int fd, char *buffer, long record, long count)
{
    static char *held;
    if (!held && !(held = malloc((size_t)record)))
        return 0;
    int own = dup(fd);
    if (own < 0 || lseek(own, 0, SEEK_SET) != 0)
        return 0;
    FILE *file = fdopen(own, "r");
    if (!file || setvbuf(file, held, _IOFBF, (size_t)record) != 0)
        return 0;
    long i = 0;
    while (i < count && fread(buffer, 1, (size_t)record, file) == (size_t)record)
        i++;
    return fclose(file) == 0 && i == count;
}

static int pass_mmap(int fd, char *buffer, long record, long count)
{
    size_t size = (size_t)(record * count);
    char *map = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (map == MAP_FAILED)
        return 0;
    for (long i = 0; i < count; i++) {
        memcpy(buffer, map + i * record, (size_t)record);
        __asm__ volatile("" : : "r"(buffer) : "memory"); /* the copy is wanted */
    }
    return munmap(map, size) == 0;
}

typedef int (*pass)(int fd, char *buffer, long record, long count);

static pass find(const char *name)
{
    if (strcmp(name, "libc") == 0)
        return pass_libc;
    if (strcmp(name, "stdio") == 0)
        return pass_stdio;
    return strcmp(name, "mmap") == 0 ? pass_mmap : NULL;
}

int main(int argc, char **argv)
{
    int in_turns = argc == 5 && strcmp(argv[3], "turns") == 0;
    int writes = in_turns && strcmp(argv[4], "read") != 0;
    pass once = in_turns || argc == 4 ? pass_direct : argc == 5 ? find(argv[4]) : NULL;
    if (!once) {
        fprintf(stderr, "usage: bare FILE RECORD turns read|write|rand-write\n"
                        "       bare FILE RECORD SECONDS [libc|stdio|mmap]\n");
        return 2;
    }
    long record = atol(argv[2]);
    double seconds = atof(argv[3]);
    int fd = open(argv[1], writes ? O_WRONLY : O_RDONLY);
    struct stat st;
    if (record <= 0 || fd < 0 || fstat(fd, &st) != 0 || st.st_size < record) {
        fprintf(stderr, "bare: cannot use records of %s bytes of %s\n", argv[2], argv[1]);
        return 2;
    }
    char *buffer = NULL;
    if (posix_memalign((void **)&buffer, 4096, (size_t)record) != 0)
        return 2;
    memset(buffer, 1, (size_t)record);
    long per_pass = st.st_size / record;
    if (in_turns) {
        struct work w = {.fd = fd, .writes = writes, .buffer = buffer, .record = record, .count = per_pass};
        if (strcmp(argv[4], "rand-write") == 0 && !(w.order = shuffled(per_pass)))
            return 2;
        return turns(&w);
    }

    /* A process that has just started runs slower at first; the probe it is compared with is warm. */
    for (double warm = wall(); wall() - warm < seconds * 1e9;)
        if (!once(fd, buffer, record, per_pass))
            break; /* told below */

    long ops = 0;
    double wall0 = wall(), cpu0 = cpu(), elapsed;
    do {
        if (!once(fd, buffer, record, per_pass)) {
            fprintf(stderr, "bare: a read of %s fell short\n", argv[1]);
            return 1;
        }
        ops += per_pass;
        elapsed = wall() - wall0;
    } while (elapsed < seconds * 1e9);
    double used = cpu() - cpu0;
    printf("ops=%ld wall_ns=%.2f cpu_ns=%.2f\n", ops, elapsed / (double)ops, used / (double)ops);
    return 0;
}
