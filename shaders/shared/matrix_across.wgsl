    // Where {{X}} is contiguous along M or N, an invocation brings a quad of these of eight K at a time: quad `quad`, from 8*eight on.
#for L in 0..{{BLOCKS}}
    let {{X}}_quad{{L}} = (index + {{L}}u * {{INVOCATIONS}}u) % ({{ROWS}}u / 4u);
    let {{X}}_eight{{L}} = (index + {{L}}u * {{INVOCATIONS}}u) / ({{ROWS}}u / 4u);
    let {{X}}_base{{L}} = {{X}}base + min({{FIRST}} / 4u + {{X}}_quad{{L}}, ({{EDGE}} + 3u) / 4u - 1u);
#end
