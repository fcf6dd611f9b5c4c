//go:build unix

#include "library.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#ifdef __APPLE__
#define LIBRARY "libmpi.40.dylib"
#else
#define LIBRARY "libmpi.so.40"
#endif

typedef void *handle; // of Open MPI, versions 4 and 5: an address

struct status { // the same in both
    int source, tag, error, cancelled;
    size_t count;
};

enum { FUNNELED = 1 }; // MPI_THREAD_FUNNELED

static struct {
    int (*Get_library_version)(char *, int *);
    int (*Init_thread)(int *, char ***, int, int *);
    int (*Finalize)(void);
    int (*Comm_rank)(handle, int *);
    int (*Comm_size)(handle, int *);
    int (*Comm_dup)(handle, handle *);
    int (*Comm_set_errhandler)(handle, handle);
    int (*Error_string)(int, char *, int *);
    int (*Isend)(const void *, int, handle, int, int, handle, handle *);
    int (*Irecv)(void *, int, handle, int, int, handle, handle *);
    int (*Iallgatherv)(const void *, int, handle, void *, const int *, const int *, handle, handle, handle *);
    int (*Test)(handle *, int *, struct status *);
    int (*Get_count)(const struct status *, handle, int *);
    handle comm_world, byte, errors_return;
} mpi;

static const struct {
    const char *name;
    void *to;
} symbols[] = {
    {"MPI_Get_library_version", &mpi.Get_library_version},
    {"MPI_Init_thread", &mpi.Init_thread},
    {"MPI_Finalize", &mpi.Finalize},
    {"MPI_Comm_rank", &mpi.Comm_rank},
    {"MPI_Comm_size", &mpi.Comm_size},
    {"MPI_Comm_dup", &mpi.Comm_dup},
    {"MPI_Comm_set_errhandler", &mpi.Comm_set_errhandler},
    {"MPI_Error_string", &mpi.Error_string},
    {"MPI_Isend", &mpi.Isend},
    {"MPI_Irecv", &mpi.Irecv},
    {"MPI_Iallgatherv", &mpi.Iallgatherv},
    {"MPI_Test", &mpi.Test},
    {"MPI_Get_count", &mpi.Get_count},
    {"ompi_mpi_comm_world", &mpi.comm_world},
    {"ompi_mpi_byte", &mpi.byte},
    {"ompi_mpi_errors_return", &mpi.errors_return},
};

const char *gtmpi_load(char *version, size_t size) {
    // Parts of Open MPI are libraries of their own, which look for its names among all.
    void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_GLOBAL);
    if (!library)
        return dlerror();
    *(void **)&mpi.Get_library_version = dlsym(library, "MPI_Get_library_version");
    if (mpi.Get_library_version) {
        char text[8192]; // MPICH's has 8192 bytes, Open MPI's 256
        int n = 0;
        mpi.Get_library_version(text, &n);
        snprintf(version, size, "%s", text);
    }
    if (strncmp(version, "Open MPI v4.", 12) && strncmp(version, "Open MPI v5.", 12))
        return NULL; // the caller refuses it
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
        void *found = dlsym(library, symbols[i].name);
        if (!found)
            return dlerror();
        memcpy(symbols[i].to, &found, sizeof found);
    }
    return NULL;
}

// Go makes errors of these signals. Parts of Open MPI take them for messages of their own.
static const int kept[] = {SIGSEGV, SIGBUS, SIGFPE};

int gtmpi_init(int *rank, int *size) {
    struct sigaction of_go[sizeof kept / sizeof *kept];
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
        sigaction(kept[i], NULL, &of_go[i]);
    int level, code = mpi.Init_thread(NULL, NULL, FUNNELED, &level);
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
        sigaction(kept[i], &of_go[i], NULL);
    if (!code)
        code = mpi.Comm_set_errhandler(mpi.comm_world, mpi.errors_return);
    if (!code)
        code = mpi.Comm_rank(mpi.comm_world, rank);
    if (!code)
        code = mpi.Comm_size(mpi.comm_world, size);
    return code;
}

static handle *channels;
static int channel_count;

int gtmpi_channel(int *channel) {
    channels = realloc(channels, (channel_count + 1) * sizeof *channels);
    if (!channels)
        abort();
    *channel = channel_count++;
    return mpi.Comm_dup(mpi.comm_world, &channels[*channel]); // with the handler of errors
}

int gtmpi_finalize(void) { return mpi.Finalize(); }

void gtmpi_error(int code, char *text, size_t size) {
    char all[512] = "";
    int n = 0;
    mpi.Error_string(code, all, &n);
    snprintf(text, size, "%s", all);
}

static struct request {
    handle of; // NULL: the slot is free
} *requests;
static int slots;

// new_slot is a free one; requests move when there are more, which MPI does not mind.
static int new_slot(void) {
    int i = 0;
    while (i < slots && requests[i].of)
        i++;
    if (i == slots) {
        slots = slots ? 2 * slots : 64;
        requests = realloc(requests, slots * sizeof *requests);
        if (!requests)
            abort();
        memset(requests + i, 0, (slots - i) * sizeof *requests);
    }
    return i;
}

int gtmpi_send(int channel, const void *b, int n, int to, int tag, int *slot) {
    *slot = new_slot();
    return mpi.Isend(b, n, mpi.byte, to, tag, channels[channel], &requests[*slot].of);
}

int gtmpi_receive(int channel, void *b, int n, int from, int tag, int *slot) {
    *slot = new_slot();
    return mpi.Irecv(b, n, mpi.byte, from, tag, channels[channel], &requests[*slot].of);
}

int gtmpi_gather(int channel, const void *own, int n, void *all, const int *counts, const int *offsets, int *slot) {
    *slot = new_slot();
    return mpi.Iallgatherv(own, n, mpi.byte, all, counts, offsets, mpi.byte, channels[channel], &requests[*slot].of);
}

int gtmpi_test(struct gtmpi_done *done, int max) {
    int n = 0;
    for (int i = 0; i < slots && n < max; i++) {
        if (!requests[i].of)
            continue;
        struct status s = {0};
        int ended = 0, code = mpi.Test(&requests[i].of, &ended, &s);
        if (!ended && !code)
            continue;
        int count = 0;
        mpi.Get_count(&s, mpi.byte, &count);
        done[n++] = (struct gtmpi_done){i, code, s.source, count};
        requests[i].of = NULL;
    }
    return n;
}

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t woken = PTHREAD_COND_INITIALIZER;
static int wake;

void gtmpi_pause(long ns) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += ns;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_mutex_lock(&mutex);
    while (!wake && !pthread_cond_timedwait(&woken, &mutex, &until)) {
    }
    wake = 0;
    pthread_mutex_unlock(&mutex);
}

void gtmpi_wake(void) {
    pthread_mutex_lock(&mutex);
    wake = 1;
    pthread_cond_signal(&woken);
    pthread_mutex_unlock(&mutex);
}
