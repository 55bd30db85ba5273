/* The least a program can pay to run another one: posix_spawn(3), execve(2) and waitpid(2), with
 * nothing timed inside it.
 *
 * Usage: spawn PROGRAM
 * Works in turns. For each line on standard input it runs PROGRAM once, without input and output,
 * and prints `ns=X`: the time from just before the process is created until it was waited for.
 */
#define _GNU_SOURCE
#include <spawn.h>
#include <stdio.h>
#include <sys/wait.h>
#include <time.h>

static long now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000L + t.tv_nsec;
}

int main(int argc, char **argv)
{
    char line[256], *none[] = {NULL};
    posix_spawn_file_actions_t streams;

    if (argc != 2 || posix_spawn_file_actions_init(&streams) ||
        posix_spawn_file_actions_addopen(&streams, 0, "/dev/null", 0, 0) ||
        posix_spawn_file_actions_addopen(&streams, 1, "/dev/null", 1, 0) ||
        posix_spawn_file_actions_addopen(&streams, 2, "/dev/null", 1, 0))
        return 2;
    while (fgets(line, sizeof line, stdin)) {
        pid_t child;
        int status;
        long start = now();
        if (posix_spawn(&child, argv[1], &streams, NULL, argv + 1, none) ||
            waitpid(child, &status, 0) != child || status != 0)
            return 1;
        printf("ns=%ld\n", now() - start);
        fflush(stdout);
    }
    return 0;
}
