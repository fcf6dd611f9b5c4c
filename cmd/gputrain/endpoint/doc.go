// Package endpoint answers OpenAI's protocol for models that are open: /v1/chat/completions, /v1/completions and /v1/models. Who draws is a [Completer],
// which a rollout.Service is, so that the protocol needs no device.
//
//	a request --guard--> request (parameters, tokens) --answer--> choices --Completer--> tokens --speech--> text --> one object, or events
//
// What holds:
//
//  1. Who may not ask is refused before anything is read: other names of the server, other sites' pages, a wrong token, more requests than there are
//     rows and places to wait.
//  2. A parameter that would change what is drawn, and that is not followed, is an error with its name. Its value without effect is accepted.
//  3. What a request gets depends on the request alone, and on its number where it has no seed.
//  4. Everything that a request takes is bounded: its body, its choices, its tokens, its time until it begins, and each write to a reader. A request whose
//     caller has gone gives back its rows before the next pass of the model.
//  5. Text comes in whole characters, and never further than where a stop text may have begun.
package endpoint
