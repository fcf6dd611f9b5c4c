package doctor

import (
	"fmt"
	"io/fs"

	"gputrain/graph"
	"gputrain/model"
	"gputrain/run/data"
)

// distillCase is case.json of kind distill: a model, or an adapter, that learns the distribution of a teacher over completions.
type distillCase struct {
	objectiveCase
	Beta        float64 `json:"beta"`
	Temperature float64 `json:"temperature"`
	Teacher     string  `json:"teacher"` // a folder, or a file of lists
	TopK        int     `json:"top_k"`
	Tail        string  `json:"tail"` // of lists: bucket or ignore

	rows  []completion
	lists []model.TeacherList
}

func loadDistill(c *goldenCase, dir fs.FS) (*distillCase, error) {
	d := &distillCase{}
	if err := d.open(c, dir, d); err != nil {
		return nil, err
	}
	var err error
	if d.rows, err = rowsOf[completion](&d.objectiveCase, dir, "rows.jsonl"); err != nil {
		return nil, err
	}
	for i, row := range d.rows {
		if err := row.check(i); err != nil {
			return nil, err
		}
		d.SeqLen = max(d.SeqLen, row.inputs())
	}
	listed := d.Teacher == "teacher.jsonl"
	switch {
	case !listed && d.Teacher != "teacher/":
		return nil, fmt.Errorf("case.json: teacher: found %q, wanted teacher/ or teacher.jsonl", d.Teacher)
	case listed && d.TopK < 1:
		return nil, fmt.Errorf("case.json: top_k: found %d, wanted at least 1 with teacher.jsonl", d.TopK)
	case listed && d.Tail != "bucket" && !(d.Tail == "ignore" && d.Beta == 0):
		return nil, fmt.Errorf("case.json: tail: found %q, wanted bucket, or ignore with beta 0", d.Tail)
	case listed:
		if d.lists, err = rowsOf[model.TeacherList](&d.objectiveCase, dir, d.Teacher); err != nil {
			return nil, err
		}
		for step := range d.Steps {
			if _, err := d.beside(step, d.laid(step)); err != nil {
				return nil, err
			}
		}
	default:
		if err := d.readTeacher(dir); err != nil {
			return nil, err
		}
		d.TopK = 0
	}
	d.learned = model.Objective{Loss: model.Distill, Numbers: map[string]float64{"beta": d.Beta, "temperature": d.Temperature, "top_k": float64(d.TopK)}}
	if err := d.learned.Validate(); err != nil {
		return nil, fmt.Errorf("case.json: %w", err)
	}
	return d, nil
}

// readTeacher reads the network in teacher/, which is frozen.
func (d *distillCase) readTeacher(dir fs.FS) error {
	def, params, err := readModel(dir, "teacher", nil)
	if err != nil {
		return fmt.Errorf("teacher: %w", err)
	}
	if d.def, err = model.WithTeacher(d.def, def); err != nil {
		return err
	}
	for _, h := range params {
		h.Path = model.TeacherPrefix + h.Path
		d.frozen = append(d.frozen, h)
	}
	return nil
}

func (d *distillCase) train(c *goldenCase, run modelRun) (*comparison, error) {
	return trainSteps(c, d, run)
}

// laid are the rows of a step, padded, with the labels of their completions.
func (d *distillCase) laid(step int) data.Batch {
	return lay(d.rows[step*d.Batch:(step+1)*d.Batch], d.SeqLen)
}

// beside are the lists of a step.
func (d *distillCase) beside(step int, b data.Batch) (map[string][]float32, error) {
	into := model.TeacherInputs(len(b.Labels), d.TopK)
	for row := range d.Batch {
		at, first := step*d.Batch+row, row*d.SeqLen
		if err := d.lists[at].Fill(into, first, b.Labels[first:first+d.SeqLen], d.def.Vocab(), d.Tail == "bucket"); err != nil {
			return nil, fmt.Errorf("%s: row %d: %w", d.Teacher, at, err)
		}
	}
	return into, nil
}

func (d *distillCase) batch(step int) data.Batch {
	b := d.laid(step)
	if d.lists != nil {
		b.Beside, _ = d.beside(step, b) // which has been made before
	}
	return b
}

func (d *distillCase) figures(step int, found map[string][]float32) (map[string]numbers, map[string][]float32, error) {
	b, metrics, first := d.laid(step), map[string]numbers{}, map[string][]float32{}
	tokens, nll := 0.0, 0.0
	figures, each := found["figures"]
	for i, label := range b.Labels {
		if label == graph.IgnoreLabel {
			continue
		}
		tokens++
		if each {
			nll += float64(figures[3*i])
			first["logps"], first["teacher_logps"] = append(first["logps"], figures[3*i+1]), append(first["teacher_logps"], figures[3*i+2])
		}
	}
	metrics["tokens"], metrics["nll"] = numbers{tokens}, numbers{nll / tokens}
	if mean, there := found["nll"]; there {
		metrics["nll"] = numbers{float64(mean[0])}
	}
	return metrics, first, nil
}
