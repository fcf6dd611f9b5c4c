package optim

import (
	"fmt"
	"math"
)

// decayRate refuses what is no decay of a moving average.
func decayRate(name string, x float64) error {
	if !(x >= 0 && x < 1) {
		return fmt.Errorf("%s: found %g, wanted 0 to less than 1", name, x)
	}
	return nil
}

// notNegative refuses what is below 0 or not finite.
func notNegative(name string, x float64) error {
	if !(x >= 0) || math.IsInf(x, 0) {
		return fmt.Errorf("%s: found %g, wanted 0 or more", name, x)
	}
	return nil
}

// positive refuses what is not above 0 or not finite.
func positive(name string, x float64) error {
	if !(x > 0) || math.IsInf(x, 0) {
		return fmt.Errorf("%s: found %g, wanted more than 0", name, x)
	}
	return nil
}

// firstError is the first of errs that is one.
func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
