package chat

import (
	"maps"
	"slices"
)

// builtIn are templates for models that have none.
var builtIn = map[string]string{
	// chatml needs the tokens <|im_start|> and <|im_end|>.
	"chatml": `{%- for message in messages %}
{%- if message.tool_calls or message.role == 'tool' or tools %}{{ raise_exception('the built-in template chatml has no tools') }}{% endif %}
{{- '<|im_start|>' + message.role + '\n' }}
{%- if message.role == 'assistant' %}{% generation %}{{ message.content + '<|im_end|>' }}{% endgeneration %}
{%- else %}{{ message.content + '<|im_end|>' }}
{%- endif %}
{{- '\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}`,
	// alpaca needs no tokens but the one that ends a text.
	"alpaca": `{{- bos_token }}
{%- for message in messages %}
{%- if message.tool_calls or message.role == 'tool' or tools %}{{ raise_exception('the built-in template alpaca has no tools') }}{% endif %}
{%- if message.role == 'assistant' %}{{ '### Response:\n' }}{% generation %}{{ message.content + eos_token }}{% endgeneration %}{{ '\n\n' }}
{%- elif message.role == 'user' %}{{ '### Instruction:\n' + message.content + '\n\n' }}
{%- else %}{{ message.content + '\n\n' }}
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{ '### Response:\n' }}{% endif %}`,
}

// needed are tokens without which a built-in template makes no sense.
var needed = map[string][]string{"chatml": {"<|im_start|>", "<|im_end|>"}}

// builtInNames are the names of the built-in templates.
func builtInNames() []string { return slices.Sorted(maps.Keys(builtIn)) }
