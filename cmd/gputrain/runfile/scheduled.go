package runfile

// scheduled are the keys that say how long a run is and what its rates are.
var scheduled = map[string]bool{
	"data.epochs": true, "train.steps": true, "optimizer.learning_rate": true,
	"optimizer.schedule.type": true, "optimizer.schedule.warmup_steps": true, "optimizer.schedule.steps": true,
	"optimizer.schedule.learning_rate_end": true, "optimizer.schedule.exponent": true,
}

// Scheduled tells whether a run that goes on with --reschedule may have another value of a key.
func Scheduled(key string) bool { return scheduled[key] }
