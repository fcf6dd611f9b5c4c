package serve

import (
	"bytes"
	"fmt"
	"image"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const ready = "document.body?.dataset.ready === 'yes' && document.querySelector('[data-series=loss]')"

// TestPage looks at the page in a real browser.
func TestPage(t *testing.T) {
	if testing.Short() {
		t.Skip("without -short: make test-page")
	}
	b := newBrowser(t)
	for name, test := range map[string]func(*testing.T, *browser){
		"shows what was measured": pageShowsWhatWasMeasured, "follows a run": pageFollowsARun,
		"draws a spike": pageDrawsTheSpike, "what a step takes": pageShowsWhatAStepTakes, "fits a phone": pageOfManyRunsFitsAPhone,
		"asks for what it draws": pageAsksForWhatItDraws, "a long run": pageOfALongRun,
		"rewards are no losses": pageOfRewards,
	} {
		t.Run(name, func(t *testing.T) { test(t, b) })
	}
}

// hover moves the pointer over a chart, to a share of the width of its axis.
func (b *browser) hover(series string, share float64) {
	b.t.Helper()
	b.eval(fmt.Sprintf(`(() => { const p = document.querySelector('[data-series=%s] .plot'), r = p.getBoundingClientRect();
		p.dispatchEvent(new PointerEvent('pointermove', {clientX: r.left + 50 + %g * (r.width - 60), clientY: r.top + 60, bubbles: true})) })()`, series, share))
}

func (b *browser) text(selector string) string {
	b.t.Helper()
	return strings.TrimSpace(b.eval("document.querySelector(" + fmt.Sprintf("%q", selector) + ")?.innerText"))
}

func pageShowsWhatWasMeasured(t *testing.T, b *browser) {
	dir := filepath.Join(t.TempDir(), "first")
	writeRun(t, dir, 1001, 0) // loss 5 - s/1001
	writeFile(t, dir, samplesFile, `{"step":0,"prompt":"twice ","text":"never"}`+"\n"+`{"step":0,"prompt":"once ","text":"<b>nothing</b>"}`+"\n"+`{"step":500,"prompt":"once ","text":"<img src=x onerror=\"document.title='broken'\"> upon","temperature":0.5,"top_k":7,"seed":42}`+"\n")
	writeFile(t, dir, rolloutsFile, `{"step":9,"row":1,"prompt":"<i>why","completions":[{"text":"<b>so","tokens":2,"truncated":true,"rewards":{"equal":null,"<u>":0.5},"advantage":-1.25}]}`+"\n")
	writeFile(t, dir, histogramsFile, `{"step":5,"name":"params/<b>","min":-2,"max":2,"mean":0.25,"std":1,"counts":[1,2,3,4]}`+"\n"+
		`{"step":900,"name":"params/<b>","min":-3,"max":1,"mean":0.5,"std":1,"counts":[4,2,2,4]}`+"\n")
	writeFile(t, dir, reportFile, "# A title\n\n| | |\n|---|---|\n| adapter | a\\|b \\<i> \\\\ |\n\n    code\n")
	url := serveTest(t, dir)
	b = b.tab(t, 1280, 900, "light")
	b.open(url)
	b.until(ready)
	b.eval("(document.getElementById('smooth').value = 0, document.getElementById('smooth').dispatchEvent(new Event('input')))")
	assert.Equal(t, "off", b.text("#smooth-value"))

	b.until("document.querySelector('[data-fact=step] .value')?.innerText.startsWith('1,001')")
	assert.Equal(t, "1,001of 2,002", b.text("[data-fact=step] .value"))
	assert.Contains(t, b.text("[data-fact='training loss']"), "4.000")
	b.until("document.querySelector('[data-series=loss] .now')?.innerText.includes('4.000 training')")

	// The axis goes from step 1 to 1001: its middle is step 501.
	b.hover("loss", 0.5)
	assert.Contains(t, b.text("[data-series=loss] .tip"), "step 501")
	assert.Contains(t, b.text("[data-series=loss] .now"), fmt.Sprintf("%.3f training", 5-501.0/1001))
	assert.Contains(t, b.text("[data-series=loss] .now"), fmt.Sprintf("%.3f validation", 5-500.0/1001+0.125))
	assert.Equal(t, "1.5", b.text("[data-series=grad_norm] .now"), "the other charts follow")
	assert.Equal(t, "90 %", b.text("[data-series='stage_busy.0'] b"))
	assert.Equal(t, "60 %", b.text("[data-series='stage_busy.1'] b"))

	// What comes from files is text.
	assert.Equal(t, "once <img src=x onerror=\"document.title='broken'\"> upon", b.text("#samples .sample:not(.before)"))
	assert.Equal(t, "once <b>nothing</b>", b.text("#samples .before"), "what was before, beside it")
	assert.Equal(t, "<i>why", b.text("#rollouts .prompt"))
	assert.Equal(t, "equal nothing · <u> 0.5 · advantage -1.25 · 2 tokens, cut", b.text("#rollouts .facts-line"))
	assert.Equal(t, "<b>so", b.text("#rollouts .sample:not(.prompt)"))
	assert.Equal(t, "params/<b>", b.text("#histograms option"))
	assert.Contains(t, b.text("#histograms dl"), "0.5")
	assert.Contains(t, b.text("#papers"), "width\t96\trun.yaml:2")
	assert.NotContains(t, b.text("#papers"), "default", "given values first")
	b.eval("document.querySelector('[data-tab=report]').click()")
	assert.Equal(t, `a|b <i> \`, b.text(".report td:last-child"))
	assert.Equal(t, "first – gputrain", b.eval("document.title"))
	b.hover("loss", 0.25)
	b.shot("test-light")
	assert.Empty(t, b.console, "neither errors nor anything that the policy refuses")
	assert.Equal(t, "true", b.eval("performance.getEntriesByType('resource').every((e) => e.name.startsWith(location.origin))"))
}

func pageFollowsARun(t *testing.T, b *browser) {
	dir := t.TempDir()
	writeRun(t, dir, 100, 0)
	b = b.tab(t, 1280, 900, "dark")
	b.open(serveTest(t, dir))
	b.until(ready)
	before, err := os.ReadFile(filepath.Join(dir, metricsFile))
	require.NoError(t, err)
	b.until("document.querySelector('[data-fact=step] .value')?.innerText.startsWith('100')")
	for step := 101; step <= 140; step++ {
		appendFile(t, dir, metricsFile, fmt.Sprintf(`{"step":%d,"loss":2.5,"grad_norm":9,"learning_rate":%g}`+"\n", step, float64(step)/1000))
	}
	b.until("document.querySelector('[data-fact=step] .value').innerText.startsWith('140')")
	b.until("document.querySelector('[data-fact=\"training loss\"]').innerText.includes('last step 2.500')")
	b.until("document.querySelector('[data-series=learning_rate] .plot').dataset.range === '1,140'") // figures come before their curves
	for _, step := range []float64{139, 125, 102} {                                                  // values of the new end stand at their steps
		b.hover("learning_rate", (step-1)/139)
		b.until(fmt.Sprintf("document.querySelector('[data-series=learning_rate] .now').innerText.trim() === '%g'", step/1000))
	}
	b.hover("grad_norm", 1)
	b.until("document.querySelector('[data-series=grad_norm] .tip').innerText.includes('9')")

	// A new process goes on from step 60.
	lines := strings.SplitAfter(string(before), "\n")
	appendFile(t, dir, sessionsFile, `{"step":60,"time":"2026-01-02T03:04:05Z"}`+"\n")
	writeFile(t, dir, metricsFile, strings.Join(lines[:60], "")+`{"step":61,"loss":1.75,"grad_norm":2}`+"\n")
	b.until("document.querySelector('[data-fact=step] .value').innerText.startsWith('61')")
	b.until("document.querySelector('[data-series=loss] .plot').dataset.marks === '60'")
	b.until("document.querySelector('[data-series=loss] .plot').dataset.range === '1,61'")
	b.hover("loss", 1)
	b.until("document.querySelector('[data-series=loss] .tip').innerText.includes('1.750')")
	b.shot("test-dark")

	// And one that was never seen begins beside it.
	require.NoError(t, os.Rename(filepath.Join(dir, metricsFile), filepath.Join(dir, "away")))
	b.until("document.querySelector('.state').innerText.includes('waiting')")
	assert.Empty(t, b.console)
}

// pageDrawsTheSpike looks at the pixels: of 100,000 steps one has ten times the loss of the others.
func pageDrawsTheSpike(t *testing.T, b *browser) {
	dir := t.TempDir()
	const n, spike = 100_000, 61_803
	writeRun(t, dir, n, spike)
	b = b.tab(t, 1280, 900, "light")
	b.open(serveTest(t, dir))
	b.until(ready)
	for _, zoom := range []string{"", "60000,65000", "61750,61850"} {
		from, to := 1.0, float64(n)
		if zoom != "" {
			_, err := fmt.Sscanf(zoom, "%g,%g", &from, &to)
			require.NoError(t, err)
			// As a drag over the chart does.
			b.eval(`(() => { const p = document.querySelector('[data-series=loss] .plot'), r = p.getBoundingClientRect();
				const now = p.dataset.range.split(',').map(Number), x = (v) => r.left + 50 + (v - now[0]) / (now[1] - now[0]) * (r.width - 60);
				p.setPointerCapture = () => {};
				for (const [kind, v] of [['pointerdown', ` + fmt.Sprint(from) + `], ['pointermove', ` + fmt.Sprint(to) + `], ['pointerup', ` + fmt.Sprint(to) + `]])
					p.dispatchEvent(new PointerEvent(kind, {clientX: x(v), clientY: r.top + 60, bubbles: true, button: 0, pointerId: 1, pointerType: 'mouse'})) })()`)
			b.until(fmt.Sprintf("Math.abs(document.querySelector('[data-series=loss] .plot').dataset.range.split(',')[0] - %g) < 1", from))
			b.until("document.body.dataset.ready === 'yes'")
		}
		picture, err := png.Decode(bytes.NewReader(b.shot("test-spike-" + strings.ReplaceAll(zoom, ",", "-"))))
		require.NoError(t, err)
		var left, top, width float64
		_, err = fmt.Sscan(b.eval(`(() => { const r = document.querySelector('[data-series=loss] .plot').getBoundingClientRect(); return [r.left, r.top + scrollY, r.width].join(' ') })()`), &left, &top, &width)
		require.NoError(t, err)
		at := int(left + 50 + (spike-from)/(to-from)*(width-60))
		// Half way up there is nothing but the spike.
		assert.True(t, coloured(picture, at-6, at+6, int(top)+60), "zoom %q", zoom)
		assert.False(t, coloured(picture, at+30, at+200, int(top)+60), "zoom %q", zoom)
	}
}

// coloured says whether a row of pixels has one with a hue.
func coloured(p image.Image, from, to, y int) bool {
	for x := from; x <= to; x++ {
		r, g, b, _ := p.At(x, y).RGBA()
		if max(r, g, b)-min(r, g, b) > 0x1800 {
			return true
		}
	}
	return false
}

func pageOfManyRunsFitsAPhone(t *testing.T, b *browser) {
	dir := t.TempDir()
	for _, name := range []string{"adamw-with-a-very-long-name-that-has-no-space", "quad", "skew"} {
		writeRun(t, filepath.Join(dir, name), 300, 0)
	}
	b = b.tab(t, 390, 844, "light")
	b.open(serveTest(t, dir))
	b.until(ready)
	b.until("document.querySelectorAll('.run').length === 3")
	assert.Equal(t, "true", b.eval("document.documentElement.scrollWidth <= innerWidth"), "no scrolling to the side")
	b.hover("eval_loss", 0.5)
	for _, name := range []string{"quad", "skew"} {
		assert.Contains(t, b.text("[data-series=eval_loss] .tip"), name)
	}
	b.eval("[...document.querySelectorAll('.run input')][1].click()")
	b.until("[...document.querySelectorAll('.run')][1].classList.contains('off')")
	b.hover("eval_loss", 0.5)
	assert.NotContains(t, b.text("[data-series=eval_loss] .tip"), "quad")
	assert.Contains(t, b.text("#papers"), "same settings")
	b.eval("[...document.querySelectorAll('#axis button')][2].click()")
	b.until("document.querySelector('[data-series=loss] .plot').dataset.range === '0.02,6'") // 300 steps of 20 ms
	b.hover("loss", 0.5)
	assert.Contains(t, b.text("[data-series=loss] .tip"), "3 s")
	b.shot("test-phone")
	assert.Empty(t, b.console)
}

// pageShowsWhatAStepTakes looks at what a run measures beside its loss: curves of one kind share a chart, and no step that seems to take no time
// decides what is seen of the others.
func pageShowsWhatAStepTakes(t *testing.T, b *browser) {
	dir := t.TempDir()
	var lines strings.Builder
	for s := 1; s <= 200; s++ {
		ms := 20.0
		switch s {
		case 100:
			ms = 39.99
		case 101: // its end was noticed with that of step 100
			ms = 0.01
		}
		fmt.Fprintf(&lines, `{"step":%d,"loss":2,"grad_norm":1.5,"grad_norm_clipped":1,"tokens":%d,"epoch":%g,"spikes":3,"tokens_per_second":%g,"padded_tokens_per_second":%g,"step_ms":%g,`+
			`"data_wait_ms":0.5,"device_ms":%g,"mfu":%g,"device_bytes":1048576,"device_peak_bytes":1048576,"host_bytes":4194304}`+"\n", s, s*100, float64(s)/100, 1e5/ms, 2e5/ms, ms, ms, 2/ms)
	}
	writeFile(t, dir, metricsFile, lines.String())
	b = b.tab(t, 1280, 900, "light")
	b.open(serveTest(t, dir))
	b.until(ready)
	b.until("document.querySelector('[data-series=tokens_per_second] .now')?.innerText.includes('padding')")
	assert.Equal(t, "loss,grad_norm,tokens_per_second,step_ms,mfu,device_bytes", b.eval("[...document.querySelectorAll('.chart')].map((c) => c.dataset.series).join()"))
	now := func(series string) string {
		return strings.Join(strings.Fields(b.text("[data-series="+series+"] .now")), " ")
	}
	assert.Equal(t, "5k in the loss 10k with padding", now("tokens_per_second"))
	assert.Equal(t, "20 step 0.5 wait for data", now("step_ms"), "the time of the device is that of the step")
	assert.Equal(t, "10 %", now("mfu"))
	assert.Equal(t, "1 MiB devices 4 MiB process", now("device_bytes"))
	assert.Equal(t, "1.5 norm 1 clipped", now("grad_norm"))
	b.hover("mfu", 105.0/199) // five steps behind
	b.until("document.querySelector('[data-series=mfu] .now').innerText.trim().startsWith('10')")
	assert.Equal(t, "lin", b.text("[data-series=mfu] .scale"))
	assert.Contains(t, b.text("[data-fact='left out']"), "3 beyond the usual")
	assert.Contains(t, b.text("[data-fact=throughput]"), "20k tokens, 2 epochs")
	b.shot("test-cost")
	assert.Empty(t, b.console)
}

// pageAsksForWhatItDraws counts the series that come to a page of a run that measures a hundred more than are drawn.
func pageAsksForWhatItDraws(t *testing.T, b *browser) {
	dir := t.TempDir()
	var lines strings.Builder
	for s := 1; s <= 50; s++ {
		fmt.Fprintf(&lines, `{"step":%d,"loss":2,"tokens":%d,"stage_busy":[0.9,0.6],"watched":{"norm/0, &=":%d`, s, s*100, s)
		for k := 1; k < 100; k++ {
			fmt.Fprintf(&lines, `,"norm/%d":%d`, k, s)
		}
		lines.WriteString("}}\n")
	}
	writeFile(t, dir, metricsFile, lines.String())
	b = b.tab(t, 1280, 900, "light")
	b.open(serveTest(t, dir))
	b.until(ready)
	b.until("document.querySelector('[data-series=\"stage_busy.1\"] b')?.innerText === '60 %'")
	const asked = "[...new Set(performance.getEntriesByType('resource').filter((e) => e.name.includes('api/curves')).map((e) => new URL(e.name).searchParams.getAll('key').sort().join()))].join(';')"
	for _, keys := range strings.Split(b.eval(asked), ";") {
		assert.Contains(t, []string{"loss", "loss,stage_busy.0,stage_busy.1"}, keys)
	}
	b.eval("document.getElementById('more-button').click()")
	b.eval("(document.getElementById('more-filter').value = 'norm/0', document.getElementById('more-filter').dispatchEvent(new Event('input')))")
	b.until("document.querySelector('[data-series=\"watched.norm/0, &=\"] .now')?.innerText.trim()")
	assert.Empty(t, b.console)
}

// A run of a million steps is drawn with its spike of one step. GPUTRAIN_SOAK takes ten million.
func pageOfALongRun(t *testing.T, b *browser) {
	steps := 1_000_000
	if os.Getenv("GPUTRAIN_SOAK") == "1" {
		steps = 10_000_000
	}
	dir := filepath.Join(t.TempDir(), "long")
	require.NoError(t, os.Mkdir(dir, 0o777))
	longRun(t, dir, steps)
	began := time.Now()
	url := serveTest(t, dir)
	b = b.tab(t, 1280, 900, "light")
	b.open(url)
	b.until(ready)
	t.Logf("%d steps: drawn after %v", steps, time.Since(began).Round(time.Millisecond))
	b.until(fmt.Sprintf("document.querySelector('[data-series=loss] .plot').dataset.range.replaceAll(' ', '') === '1,%d'", steps))
	b.eval("(document.getElementById('smooth').value = 0, document.getElementById('smooth').dispatchEvent(new Event('input')))")
	b.until("document.getElementById('smooth-value').innerText === 'off'")
	b.hover("loss", float64(steps/3-1)/float64(steps-1))
	b.until("document.querySelector('[data-series=loss] .now').innerText.includes('99')") // curves without a mean come a moment later
	b.shot("test-long")
	assert.Empty(t, b.console)
}

// pageOfRewards has evaluations that are rewards: no loss, no perplexity and no nats a token.
func pageOfRewards(t *testing.T, b *browser) {
	dir := t.TempDir()
	const drawn = `"figures":{"entropy":1,"kl":0,"clip_low":0,"clip_high":0,"clip_region":0,"clip_low_min":0,"clip_high_max":0,"old_difference":0,"old_difference_rms":0},"tokens_per_second":9,"step_ms":20`
	writeFile(t, dir, metricsFile, `{"step":1,"loss":0.5,"tokens":8,"rollout":{"reward":0.25,"mean_length":9},`+drawn+"}\n"+
		`{"step":1,"eval_loss":-0.875,"eval_tokens":4,"eval_rollout":{"reward":0.875,"mean_length":9}}`+"\n"+`{"step":2,"loss":0.25,"tokens":16,`+drawn+"}\n"+
		`{"step":2,"eval_loss":-0.5,"eval_tokens":4,"eval_rollout":{"reward":0.5,"mean_length":9}}`+"\n")
	b = b.tab(t, 1280, 900, "light")
	b.open(serveTest(t, dir))
	b.until(ready)
	b.until("document.querySelector('[data-fact=\"validation reward\"]')?.innerText.includes('best was 0.875')")
	assert.Contains(t, b.text("[data-fact='validation reward']"), "0.500")
	assert.NotContains(t, b.text("body"), "perplexity")
	assert.NotContains(t, b.text("body"), "nats a token")
	assert.NotContains(t, b.text("[data-series=loss]"), "validation")
	assert.Contains(t, b.text("[data-series='rollout.reward']"), "validation")
}
