module gputrain/tools/isa

go 1.26.0

require (
	github.com/stretchr/testify v1.12.1
	gputrain v0.0.0
)

require (
	github.com/cogentcore/webgpu v0.23.0 // indirect
	github.com/dlclark/regexp2/v2 v2.12.0 // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
	golang.org/x/sys v0.49.0 // indirect
	golang.org/x/text v0.14.0 // indirect
)

replace gputrain => ../..
