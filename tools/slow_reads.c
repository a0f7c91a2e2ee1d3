/* Slow storage for tests and benchmarks: LD_PRELOAD this, and every read of a file at an offset waits first.
 *
 * SLOW_READS_US: microseconds a read. SLOW_READS_LOG: a file that gets, at the end of the process, the number of reads
 * and the largest number of them under way at once.
 *
 * cc -O2 -shared -fPIC -o slow_reads.so slow_reads.c -ldl -lpthread
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/types.h>
#include <time.h>

typedef ssize_t (*read_function)(int, void *, size_t, off64_t);

static atomic_int under_way, most, all;
static long delay = -1;

static void begin(void) {
    int now = atomic_fetch_add(&under_way, 1) + 1;
    int seen = atomic_load(&most);
    while (now > seen && !atomic_compare_exchange_weak(&most, &seen, now)) {
    }
    atomic_fetch_add(&all, 1);
    if (delay < 0) {
        const char *given = getenv("SLOW_READS_US");
        delay = given ? atol(given) : 0;
    }
    if (delay > 0) {
        struct timespec wait = {delay / 1000000, delay % 1000000 * 1000};
        nanosleep(&wait, NULL);
    }
}

static ssize_t slow(const char *name, int file, void *into, size_t length, off64_t offset) {
    read_function real = (read_function)dlsym(RTLD_NEXT, name);
    begin();
    ssize_t got = real(file, into, length, offset);
    atomic_fetch_sub(&under_way, 1);
    return got;
}

ssize_t pread64(int file, void *into, size_t length, off64_t offset) {
    return slow("pread64", file, into, length, offset);
}

ssize_t pread(int file, void *into, size_t length, off_t offset) {
    return slow("pread64", file, into, length, offset);
}

__attribute__((destructor)) static void report(void) {
    const char *path = getenv("SLOW_READS_LOG");
    FILE *out = path ? fopen(path, "w") : NULL;
    if (out) {
        fprintf(out, "%d %d\n", atomic_load(&all), atomic_load(&most));
        fclose(out);
    }
}
