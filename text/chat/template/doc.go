// Package template runs the chat templates of Hugging Face's models, which say how a conversation becomes text: the
// part of Jinja2 that published templates use, with the settings of transformers.
//
//	t, err := template.Parse("chat_template.jinja", source)
//	variables := &template.Object{}
//	variables.Set("messages", messages) // from template.Decode
//	made, err := t.Render(variables, template.Options{})
//	fmt.Print(made.Text)
//
// Invariants, each held by a test:
//
//  1. Texts are those of Jinja2 under Python. Whatever else Jinja2 knows is an error that names it: a statement, filter
//     or test when the template is parsed, a method when it is called.
//  2. Errors name the template and its line. What a template refuses by raise_exception is a [RaisedError].
//  3. Templates come from anybody: whatever one does, it ends within its limits, and none panics.
package template
