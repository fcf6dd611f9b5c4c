package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"gputrain/buffers"
	"gputrain/gpu"
)

// probe finds how devices add.
func probe(ctx context.Context, devices []*gpu.Device) (found addition, err error) {
	devices = slices.DeleteFunc(slices.Clone(devices), (*gpu.Device).Dry) // they are on other ranks
	if len(devices) == 0 {
		return found, errors.New("addition: found no device, wanted one or more")
	}
	for i, dev := range devices {
		sums, err := probed(ctx, dev)
		if err != nil {
			return found, fmt.Errorf("addition: %w", err)
		}
		one, ok := findAddition(sums)
		switch {
		case !ok:
			return found, fmt.Errorf("addition: %s: its sums are none that the host makes, with denormals or without: it cannot train with other ranks", dev.Adapter())
		case i > 0 && one != found:
			return found, fmt.Errorf("addition: %s treats denormals otherwise than %s: they cannot train together with other ranks", dev.Adapter(), devices[0].Adapter())
		}
		found = one
	}
	return found, nil
}

// probed are the sums of the probes, made by the kernel that adds up gradients.
func probed(ctx context.Context, dev *gpu.Device) ([]float32, error) {
	left, right := probes()
	layout, err := buffers.NewLayout([]buffers.Spec{{Path: "probe", Shape: []int{len(left)}}}, dev.Limits())
	if err != nil {
		return nil, err
	}
	var trees []*buffers.Tree
	defer func() {
		for _, t := range trees {
			t.Release()
		}
	}()
	for _, values := range [][]float32{left, right} {
		t, err := buffers.NewTree(dev, "cluster.probe", layout, buffers.F32)
		if err != nil {
			return nil, err
		}
		trees = append(trees, t)
		if err := t.Write("probe", values); err != nil {
			return nil, err
		}
	}
	rec := dev.Record("gputrain.cluster.probe")
	if err := buffers.Sum(rec, nil, trees[1], trees...); err != nil {
		return nil, err
	}
	if err := rec.Submit(ctx); err != nil {
		return nil, err
	}
	return trees[1].Read(ctx, "probe")
}
