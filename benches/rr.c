/* The least a program can pay for a transaction over TCP: what netperf's TCP_RR does, one byte each way,
 * nothing timed inside the loop.
 *
 * Usage: rr NEAR_CPU FAR_CPU
 * A child answers on the second CPU, over the loopback. For each line "LEAD_IN NS" on standard input the
 * parent makes transactions for LEAD_IN nanoseconds that do not count, then for NS, and prints
 *     ops=N wall_ns=X cpu_ns=Y
 * where X and Y are nanoseconds a transaction: CLOCK_MONOTONIC, and user + system time of the parent.
 * The clock is read every 16 transactions.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
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

static void pin(int number)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(number, &set);
    sched_setaffinity(0, sizeof set, &set);
}

/* Transactions in about ns nanoseconds; -1 when one failed. */
static long work_for(int fd, double ns)
{
    long ops = 0;
    char byte = 0;
    for (double start = wall(); wall() - start < ns;)
        for (int i = 0; i < 16; i++, ops++)
            if (send(fd, &byte, 1, 0) != 1 || recv(fd, &byte, 1, 0) != 1)
                return -1;
    return ops;
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "usage: rr NEAR_CPU FAR_CPU\n");
        return 2;
    }
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof at;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    if (listener < 0 || bind(listener, (struct sockaddr *)&at, length) != 0 || listen(listener, 1) != 0 ||
        getsockname(listener, (struct sockaddr *)&at, &length) != 0) {
        perror("rr: listen");
        return 1;
    }
    if (fork() == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        pin(atoi(argv[2]));
        int fd = accept(listener, NULL, NULL);
        char byte;
        while (recv(fd, &byte, 1, 0) == 1 && send(fd, &byte, 1, 0) == 1)
            ;
        return 0;
    }
    pin(atoi(argv[1]));
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(fd, (struct sockaddr *)&at, length) != 0) {
        perror("rr: connect");
        return 1;
    }
    double lead_in, ns;
    while (scanf("%lf %lf", &lead_in, &ns) == 2) {
        long before = work_for(fd, lead_in);
        double wall0 = wall(), cpu0 = cpu();
        long ops = work_for(fd, ns);
        if (before < 0 || ops <= 0) {
            fprintf(stderr, "rr: a transaction failed\n");
            return 1;
        }
        double elapsed = wall() - wall0, used = cpu() - cpu0;
        printf("ops=%ld wall_ns=%.2f cpu_ns=%.2f\n", ops, elapsed / (double)ops, used / (double)ops);
        fflush(stdout);
    }
    return 0;
}
