// What this package needs of Open MPI, whose library is opened when it is wanted. All calls but gtmpi_wake are made by one thread.
#ifndef GPUTRAIN_MPI_LIBRARY_H
#define GPUTRAIN_MPI_LIBRARY_H

#include <stddef.h>

// gtmpi_load opens the library and finds its functions. It returns NULL, or what is wrong; version is what the library says of itself.
const char *gtmpi_load(char *version, size_t size);

// Codes of MPI: 0 is success. gtmpi_error says the others in words.
int gtmpi_init(int *rank, int *size);
int gtmpi_finalize(void);
void gtmpi_error(int code, char *text, size_t size);

// gtmpi_channel makes a communicator of all ranks, which are numbered from 0 on. All ranks must call it.
int gtmpi_channel(int *channel);

// What is started is a request with a slot, a small number, until gtmpi_test finds it done. Memory is C's.
int gtmpi_send(int channel, const void *b, int n, int to, int tag, int *slot);
int gtmpi_receive(int channel, void *b, int n, int from, int tag, int *slot); // from -1: anybody
int gtmpi_gather(int channel, const void *own, int n, void *all, const int *counts, const int *offsets, int *slot);

// gtmpi_done is a request that has ended.
struct gtmpi_done {
    int slot, code, source, count;
};

// gtmpi_test looks at all requests and returns how many have ended, at most max.
int gtmpi_test(struct gtmpi_done *done, int max);

// gtmpi_pause waits so many nanoseconds, or until gtmpi_wake.
void gtmpi_pause(long ns);
void gtmpi_wake(void);

#endif
