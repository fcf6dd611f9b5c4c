// Package mpi is ranks on Open MPI, version 4 or 5. Its library is opened when ranks are asked for, so one binary serves with and without it.
//
// One thread makes all calls of the library, none of which waits: what is started is tested again and again, with pauses of an eighth of what it has
// waited, at most a millisecond. So a rank that waits takes no core, deadlines and contexts are kept, and every rank answers questions at any time.
// When a deadline passes, the rank asks all others where they are, and blames the one at the end of the chain of those who wait for each other: one
// that does not answer, or has not come.
//
// Invariants, which tests hold:
//
//  1. The library sees only C's memory. Messages are cut into pieces, which are copied to and from it, a few at a time.
//  2. The first failure is told to all; whoever is told fails with it.
//  3. Nothing of the library's decides a bit: it copies bytes and adds nothing up.
//  4. Go's handlers of signals stay: a nil dereference is a panic, which can be recovered.
package mpi
