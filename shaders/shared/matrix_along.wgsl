    // {{X}} is contiguous along K, and so are the rows of its tile: an invocation brings eights of these, eight `fast` of row `slow`.
#for L in 0..{{BLOCKS}}
    let {{X}}_slow{{L}} = (index + {{L}}u * {{INVOCATIONS}}u) / ({{STEP}}u / 8u);
    let {{X}}_fast{{L}} = (index + {{L}}u * {{INVOCATIONS}}u) % ({{STEP}}u / 8u);
    let {{X}}_from{{L}} = {{X}}base + min({{FIRST}} + {{X}}_slow{{L}}, {{EDGE}} - 1u) * p.ld{{X}} + {{X}}_fast{{L}} * {{PIECES}}u;
    let {{X}}_k{{L}} = 8u * {{X}}_fast{{L}};
    let {{X}}_to{{L}} = {{AT}} + {{X}}_slow{{L}} * {{PITCH}}u + {{X}}_fast{{L}};
#end
