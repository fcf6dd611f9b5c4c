package runfile

import "strings"

// distil is the section of the objective that a teacher says.
type distil struct {
	Teacher     string   `yaml:"teacher" resume:"content" doc:"model whose distribution over tokens is learned, of the same vocabulary: a run directory, a Hugging Face directory or a GGUF file, which is frozen on the same devices in the type of model.base; or a .jsonl file of its likeliest tokens, as gputrain distil writes it, a line for each row of data.jsonl. Empty: none, the loss is that of the tokens"`
	Fingerprint string   `yaml:"fingerprint" doc:"fingerprint of the teacher, or the beginning of one; the run refuses a teacher with another one. Empty: any. A run records it"`
	Beta        float64  `yaml:"beta" range:"0..1" doc:"divergence that is learned: KL(teacher|student) at 0, KL(student|teacher) at 1, the generalised Jensen-Shannon divergence between"`
	Temperature *float64 `yaml:"temperature" range:">0" doc:"what the logits of both are divided by. null: 1, or that of the file that is the teacher"`
	Tail        string   `yaml:"tail" default:"bucket" range:"bucket|ignore" doc:"a file as teacher: whether all tokens that a list lacks are a category of their own (bucket), or the listed ones share the whole probability (ignore), which goes with beta 0"`
}

// listsSuffix ends the name of a teacher that is a file of lists.
const listsSuffix = ".jsonl"

// TeacherIsFile tells whether the teacher is a file of lists.
func (c *Config) TeacherIsFile() bool { return strings.HasSuffix(c.Distil.Teacher, listsSuffix) }

// validateDistil refuses what a teacher does not go with.
func (c *Config) validateDistil() error {
	d := c.Distil
	switch file := c.TeacherIsFile(); {
	case d.Teacher == "":
		return nil
	case !file && d.Tail != Default().Distil.Tail:
		return c.Invalid("distil.tail", d.Tail, "nothing without a teacher that is a file of lists, "+listsSuffix)
	case file && d.Tail == "ignore" && d.Beta != 0:
		return c.Invalid("distil.beta", d.Beta, "0 with distil.tail ignore")
	case file && len(c.Data.JSONL) == 0:
		return c.Invalid("distil.teacher", d.Teacher, "a model without data.jsonl: a file has a line for each of its rows")
	}
	return nil
}
