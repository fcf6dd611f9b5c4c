    // Where {{X}} is contiguous along K, an invocation brings eight elements of a row at a time: those from 8*eight on of row `row`.
#for L in 0..{{BLOCKS}}
    let {{X}}_row{{L}} = (index + {{L}}u * {{INVOCATIONS}}u) / ({{STEP}}u / 8u);
    let {{X}}_eight{{L}} = (index + {{L}}u * {{INVOCATIONS}}u) % ({{STEP}}u / 8u);
    let {{X}}_base{{L}} = {{X}}base + min({{FIRST}} + {{X}}_row{{L}}, {{EDGE}} - 1u) * p.ld{{X}};
#end
