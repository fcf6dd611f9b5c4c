package main

// If this process is killed, mpirun has the ranks save and stop.
func init() { ownGroup.Pdeathsig = stopSignal }
