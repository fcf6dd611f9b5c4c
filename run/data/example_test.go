package data_test

import (
	"fmt"

	"gputrain/run/data"
)

// A batch of one's own documents, the first of them with a question that is not to be learned.
func ExampleCollator() {
	c, err := data.NewCollator(6, data.LongKeepStart)
	if err != nil {
		panic(err)
	}
	batch, err := c.Collate(
		data.Document{Tokens: data.EncodeBytes("1+1=2"), Counts: []bool{false, false, false, false, true}},
		data.Document{Tokens: data.EncodeBytes("abc")},
	)
	fmt.Println(batch.Tokens, batch.Labels, batch.Count, err)
	// Output:
	// [49 43 49 61 50 0 97 98 99 0 0 0] [-100 -100 -100 50 -100 -100 98 99 -100 -100 -100 -100] 3 <nil>
}
