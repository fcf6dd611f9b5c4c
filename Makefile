# gputrain: `make train` learns, `make test` proves in short, `make check` in full and is what a change must pass.

GO      ?= go
BIN     := bin/gputrain
TOOL    := $(GO) tool -modfile=tools/go.mod
SOURCES := $(shell find . -name '*.go' -o -name '*.wgsl' -o -name '*.c' -o -name '*.h' -o -path './cmd/*' -type f | grep -v '^./tools/') go.mod go.sum

.PHONY: build dist dist-darwin-arm64 dist-again test-windows test-arm64 window licenses train test test-page test-window check sizes corpus sums mixed netns slurm same isa isa-shims matrix-units llama openai-client pages fmt fuzz soak true-shapes matrix bench adapter clean

build: $(BIN)

$(BIN): $(SOURCES)
	@command -v $${CC:-cc} >/dev/null || { echo "gputrain: no C compiler found, wanted gcc or clang (Debian, Ubuntu: apt-get install gcc libc6-dev)" >&2; exit 1; }
	$(GO) build -o $@ ./cmd/gputrain

# window builds bin/gputrain-window, which is gputrain with `train --window` and `watch`. It needs the headers of the window system.
WINDOW := bin/gputrain-window

window: $(WINDOW)

$(WINDOW): $(SOURCES)
	@test "$$(uname)" != Linux || printf '#include <X11/Xcursor/Xcursor.h>\n#include <X11/extensions/Xrandr.h>\n#include <X11/extensions/Xinerama.h>\n#include <X11/extensions/XInput2.h>\n#include <X11/extensions/xf86vmode.h>\n#include <GL/gl.h>\n' | $${CC:-cc} -E - >/dev/null 2>&1 || { echo "gputrain: no headers of X11 found (Debian, Ubuntu: apt-get install libx11-dev libxcursor-dev libxrandr-dev libxinerama-dev libxi-dev libgl1-mesa-dev libxxf86vm-dev)" >&2; exit 1; }
	$(GO) build -tags window -o $@ ./cmd/gputrain

# dist makes archives of the program for other machines in bin/dist, with checksums: the same bytes for the same commit and the same compilers.
# docs/install.md says what they need. Each has a target of its own; that of macOS needs a Mac.
DIST         := dist-linux-amd64 dist-linux-arm64 dist-windows-amd64
DIST_VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
DIST_TIME    ?= $(shell git log -1 --format=%ct 2>/dev/null || echo 0)

dist:
	@rm -rf bin/dist
	@$(MAKE) --no-print-directory $(DIST)
	@$(GO) run -C tools ./dist -sums '$(CURDIR)'/bin/dist/gputrain-*

.PHONY: $(DIST)
$(DIST) dist-darwin-arm64:
	@tools/dist/dist.sh $(@:dist-%=%) $(DIST_VERSION) $(DIST_TIME)

# dist-again makes them once more, from a copy of the source in another folder and without anything kept of the build, and compares.
dist-again:
	@tools/dist/again.sh $(DIST_VERSION) $(DIST_TIME)

# test-windows runs the program of Windows' archive, and the tests of what is that system's, by wine. What wine cannot do stands in docs/install.md.
test-windows: adapter dist-windows-amd64
	tools/wine/test.sh

# test-arm64 runs the program of the archive for Linux on ARM, under qemu with Mesa for ARM.
test-arm64: adapter dist-linux-arm64
	tools/arm64.sh

# adapter makes sure that WebGPU finds something to run on, if need be Mesa's software driver.
adapter: $(BIN)
	@tools/adapter.sh $(BIN)

# train is the first run: the default run's model, with the optimizer that reaches its loss soonest. RUN= names another run file.
RUN ?= docs/first.yaml

train: adapter
	$(BIN) train $(RUN) $(ARGS)

# A missing adapter fails the device tests instead of skipping them. Each package has TEST_TIMEOUT, which no test should come near: Go's ten
# minutes are too few for two slow cores that have other work. Two packages at a time, as compiling a shader keeps one core busy: those that take longest
# one by one, the others by one `go test`, which reads and builds what they share once.
TEST_TIMEOUT ?= 30m
LONGEST      := ./tests ./pipeline ./run/train ./graph/compile ./kron ./optim ./state ./cmd/gputrain/doctor
export GO TEST_TIMEOUT
tests = { $(GO) list $(LONGEST); $(GO) list ./...; } | awk '!listed[$$0]++ { printf(NR > $(words $(LONGEST)) ? "%s " : "%s\n", $$0) }' | \
  GPUTRAIN_REQUIRE_ADAPTER=1 GPUTRAIN_TEST_PROGRAM='$(CURDIR)/$(BIN)' xargs -P 2 -L 1 tools/test.sh

# test is short: of long tables it takes some rows, of two drivers that both run on the processor one, and of tests of one subject those that see it
# soonest. check takes all. Mesa's drivers do not optimize the machine code that they make of kernels: that takes half the time, and such small kernels
# run as fast, to the same bits. They run them on the thread that submits: a fifth less processor time than waking others. Garbage is collected less
# often: programs that soon end need their memory less than their time.
test: export GALLIVM_PERF = nopt
test: export LP_NUM_THREADS = 0
test: export GOGC = 400
test: adapter
	@$(tests) -short

# test-page looks at the live page in a browser without a screen (Chromium).
test-page:
	GPUTRAIN_REQUIRE_BROWSER=1 $(GO) test -timeout $(TEST_TIMEOUT) -run Page ./cmd/gputrain/serve

# test-window runs the tests that look at a window, on an X server without hardware (Xvfb). One package at a time: two servers that begin and end
# together can take each other's display.
test-window: adapter $(WINDOW)
	$(GO) vet -tags window ./cmd/gputrain/... ./tests
	GPUTRAIN_REQUIRE_ADAPTER=1 GPUTRAIN_REQUIRE_WINDOW=1 $(GO) test -p 1 -timeout $(TEST_TIMEOUT) -tags window -run 'Surface|ABI|View|Window' ./cmd/gputrain/window/... ./tests

check: adapter
	@$(tests)
	$(GO) vet ./... && $(GO) vet -C tools ./... && $(GO) vet -C tools/isa . && $(GO) test -C tools/isa .
	@files=$$($(TOOL) gofumpt -l $$(git ls-files -co --exclude-standard '*.go')); test -z "$$files" || { echo "gofumpt: not formatted:" $$files >&2; exit 1; }
	$(TOOL) staticcheck ./...
	@tools/shaders.sh $(BIN)

# sizes holds the plans of published models, up to 8B, to limits: memory, work of a step, and how much is made to plan them. No weights are read and no
# adapter is needed; check runs it too.
sizes:
	$(GO) test -count=1 -run '^TestSizes$$' ./cmd/gputrain

# pages writes the tables of keys in docs/run-file.md from the tags of the run file's structs, those of docs/which-card.md from plans and measured
# cards, and that of rollouts in docs/benchmarks.md from plans.
pages:
	$(GO) test -count=1 -run '^TestPageOf(Cards|Rollouts)$$' ./cmd/gputrain -update
	$(GO) test -count=1 -run '^TestPageHasEveryKey$$' ./run/runfile -update

# corpus opens a made corpus of SIZE GiB as bytes, and a fortieth of it with a tokenizer and as JSONL, and tells what each start reads and takes. It needs
# an eighth of SIZE on the disk of temporary files.
SIZE ?= 20
corpus:
	GPUTRAIN_CORPUS=$(SIZE) $(GO) test -count=1 -timeout 3h -v -run '^TestCorpusIsNotInMemory$$' ./run/data/texts

# sums runs the commands of docs/rollouts.md for SEEDS seeds: a model learns sums by rewards, and is asked for those that it has not seen.
SEEDS ?= 3
sums: adapter
	GPUTRAIN_REQUIRE_ADAPTER=1 SUMS_SEEDS=$(SEEDS) $(GO) test -count=1 -timeout 1h -v -run '^TestRolloutsPage$$' ./tests

# mixed runs the tests of stages on adapters of several kinds once more, with SwiftShader where Chromium's package has brought it.
mixed: adapter
	@tools/mixed.sh -v

# netns runs a command on the first of two hosts, which are network namespaces, with a slow link between them that can be cut: by default the tests of
# ranks on two hosts. RATE is in Mbit/s. Where namespaces are not allowed it says so.
RATE  ?= 1000
DELAY ?= 1ms
netns:
	$(GO) build -C tools -o ../bin/ ./netns
	bin/netns -rate $(RATE) -delay $(DELAY) $(or $(ARGS),$(GO) test -count=1 -timeout $(TEST_TIMEOUT) -p 1 -run Hosts ./internal/ranks/transport/mpi ./tests)

# slurm runs a command on a Slurm cluster of its own, whose two nodes are this machine: by default the tests of srun and of docs/cluster/slurm.sh.
slurm:
	$(GO) build -C tools -o ../bin/ ./slurm
	bin/slurm $(or $(ARGS),$(GO) test -count=1 -timeout $(TEST_TIMEOUT) -run Slurm ./tests)

# same builds the program of the commit BEFORE beside the tree's, gives both the same commands, and compares what they say, write and compile, case by case.
# ARGS='-part runs -case lora' takes some (parts: shaders, plans, runs); texts that change on purpose stand in tools/same/expected.txt.
same:
	$(GO) test -C tools ./same
	$(GO) build -C tools -o ../bin/ ./same
	bin/same -before "$(BEFORE)" $(ARGS)

# isa compiles every kernel with the compilers of real GPUs, without the GPUs, and holds registers, waves, loads and shares of multiply-adds to limits
# (tools/isa/limits.go): AMD's as it is; RDNA 3's matrix units and Intel's once isa-shims has brought a newer RADV and built the stand-in for Intel's
# kernel driver; NVIDIA's, Adreno's and Apple's with `make isa-shims SHIMS=all` and GPUTRAIN_ISA_MESA=, the tree of a system with a newer Mesa.
# ARGS='-kernel attention -family navi21' takes some.
GPUTRAIN_ISA_SHIMS ?= $(CURDIR)/bin/isa

isa: export GPUTRAIN_ISA_SHIMS := $(GPUTRAIN_ISA_SHIMS)
isa:
	$(GO) test -C tools/isa -count=1 .
	$(GO) run -C tools/isa . $(ARGS)

isa-shims:
	tools/isa/shims.sh '$(GPUTRAIN_ISA_SHIMS)' $(SHIMS)

# matrix-units runs the tests of matrix units on a driver that has them, lavapipe of Mesa 26, out of the tree that GPUTRAIN_ISA_MESA names, or of one that it
# brings (75 MB of Debian's packages).
matrix-units:
	@$(if $(GPUTRAIN_ISA_MESA),,tools/mesa.sh bin/mesa)
	@tools/matrix.sh "$(or $(GPUTRAIN_ISA_MESA),bin/mesa)"

# llama installs llama.cpp from npm, for a processor, and lets it judge what export writes for it. It needs Node.js, npm and Python.
llama: adapter
	tools/llama/install.sh bin/llama
	GPUTRAIN_REQUIRE_ADAPTER=1 GPUTRAIN_LLAMA='$(CURDIR)/bin/llama' $(GO) test -count=1 -timeout $(TEST_TIMEOUT) -run '^TestLlamaCpp|^TestTuningFamilies' ./tests

# openai-client installs OpenAI's client and a chat page (deep-chat) from npm, and lets them ask an endpoint as their users do. It needs Node.js and npm, and
# for the page Chromium.
openai-client: adapter
	tools/openai/install.sh bin/openai
	GPUTRAIN_REQUIRE_ADAPTER=1 GPUTRAIN_OPENAI='$(CURDIR)/bin/openai' $(GO) test -count=1 -timeout $(TEST_TIMEOUT) -run '^TestOpenAIClient$$' ./tests

fmt:
	$(TOOL) gofumpt -w $$(git ls-files -co --exclude-standard '*.go')

# fuzz runs every fuzz target for FUZZTIME each; `make test` runs their kept inputs. Go's fuzzer sometimes ends with "context deadline
# exceeded" when the time is over while it looks for a smaller input: that is no finding.
FUZZTIME ?= 5m
fuzz:
	@mkdir -p bin; for pkg in $$($(GO) list ./...); do \
	  for target in $$($(GO) test -list '^Fuzz' $$pkg | grep '^Fuzz'); do \
	    echo "$$pkg $$target"; \
	    $(GO) test -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 300x $$pkg >bin/fuzz.log 2>&1 || \
	      { grep -q 'context deadline exceeded' bin/fuzz.log && ! grep -q 'Failing input' bin/fuzz.log; } || { cat bin/fuzz.log; exit 1; }; \
	    grep elapsed bin/fuzz.log | tail -1; \
	  done; \
	done; rm -f bin/fuzz.log

# soak runs the long forms: 100,000 read-backs, 20,000 steps with flat memory, a stop at every step, ten kills, all of the matrix of ranks, a model of the
# shapes of SmolLM2-135M in the memory that was planned for it.
soak: adapter
	GPUTRAIN_REQUIRE_ADAPTER=1 GPUTRAIN_SOAK=1 $(GO) test -count=1 -timeout 5h -run 'Soak|Kill|TestResumeAtEveryStep' ./...

# true-shapes trains models of published shapes, with weights that are drawn, for a step, and draws 16 tokens, in the memory that was planned for it. The
# largest takes 10 GiB of the disk of temporary files. SHAPES='lfm2-350m mixture-1b' takes some (tests/true_shapes_linux_test.go).
SHAPES ?= all
true-shapes: adapter
	GPUTRAIN_REQUIRE_ADAPTER=1 TRUE_SHAPES="$(SHAPES)" $(GO) test -count=1 -timeout 3h -v -run '^TestTrueShapes$$' ./tests

# matrix holds pipelines to one device, bit by bit: 1 to 4 stages, every schedule, 1 to 8 microbatches, every optimizer. An hour on two cores.
matrix: adapter
	GPUTRAIN_REQUIRE_ADAPTER=1 GPUTRAIN_FULL=1 $(GO) test -count=1 -timeout 12h -run 'TestMatrix$$|TestFamilies|TestUpdatesThatAreNotFinite|TestEvaluationAnd' ./pipeline

# licenses writes what `gputrain licenses` prints, from the module graph.
licenses:
	@mkdir -p bin
	$(GO) run -C tools ./licenses >bin/LICENSES.new && mv bin/LICENSES.new cmd/gputrain/LICENSES

bench: adapter
	$(BIN) bench $(ARGS)

clean:
	rm -rf bin
