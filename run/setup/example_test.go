package setup_test

import (
	"context"
	"fmt"
	"os"

	"gputrain/gpu"
	"gputrain/run/runfile"
	"gputrain/run/setup"
	"gputrain/run/train"
)

// A program of one's own that does what `gputrain train run.yaml --run-dir runs/mine` does.
func ExampleTrain() {
	check := func(err error) {
		if err != nil {
			panic(err)
		}
	}
	ctx, stop := train.Signals(context.Background(), os.Stderr, os.Exit)
	defer stop()
	cfg, err := runfile.ReadAll([]string{"run.yaml"}, os.Environ(), nil)
	check(err)
	run, release, err := setup.Train(ctx, cfg, os.Stderr)
	check(err)
	defer release()
	run.Dir = "runs/mine"

	adapters, err := setup.Adapters(cfg, "") // those of the run file, or the best there is
	check(err)
	options, err := setup.DeviceOptions(cfg, adapters...)
	check(err)
	devices, closeAll, err := setup.OpenStages(ctx, cfg, adapters, options)
	check(err)
	defer closeAll()
	result, err := trainOn(ctx, cfg, run, devices)
	fmt.Println(result.Reason, result.Step, result.EvalLoss, err)
}

// trainOn trains on the one device, or in stages on several.
func trainOn(ctx context.Context, cfg *runfile.Config, run train.Config, devices []*gpu.Device) (train.Result, error) {
	if len(devices) == 1 {
		return train.Run(ctx, devices[0], run)
	}
	units, err := setup.Units(cfg, run.State)
	if err != nil {
		return train.Result{}, err
	}
	cut, _, err := setup.Cut(ctx, cfg, run.State, units, devices)
	if err != nil {
		return train.Result{}, err
	}
	return train.RunOn(ctx, train.Pipelined(devices, setup.Pipeline(cfg, cut)), run)
}
