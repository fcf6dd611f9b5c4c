    // {{X}} is contiguous along M or N, and so are the rows of its tile, one a K: an invocation brings eights of these, eight `fast` of row `slow`.
#for L in 0..{{BLOCKS}}
    let {{X}}_slow{{L}} = (index + {{L}}u * {{INVOCATIONS}}u) / ({{SIDE}}u / 8u);
    let {{X}}_fast{{L}} = (index + {{L}}u * {{INVOCATIONS}}u) % ({{SIDE}}u / 8u);
    let {{X}}_from{{L}} = {{X}}base + min({{FIRST}} / 8u + {{X}}_fast{{L}}, ({{EDGE}} + 7u) / 8u - 1u) * {{PIECES}}u + {{X}}_slow{{L}} * p.ld{{X}};
    let {{X}}_k{{L}} = {{X}}_slow{{L}};
    let {{X}}_to{{L}} = {{AT}} + {{X}}_slow{{L}} * {{PITCH}}u + {{X}}_fast{{L}};
#end
