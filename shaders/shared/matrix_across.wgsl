    // Where {{X}} is contiguous along M or N, an invocation brings a quad of these of four K at a time: quad `quad`, from 4*four on. Four invocations read 64
    // bytes in a row; the next four are next to them in a row of the tile, where they meet fewer banks twice.
#for L in 0..{{BLOCKS}}
    let {{X}}_quad{{L}} = index % 4u + (index + {{L}}u * {{INVOCATIONS}}u) / {{STEP}}u * 4u;
    let {{X}}_four{{L}} = index / 4u % ({{STEP}}u / 4u);
    let {{X}}_base{{L}} = {{X}}base + min({{FIRST}} / 4u + {{X}}_quad{{L}}, ({{EDGE}} + 3u) / 4u - 1u);
    let {{X}}_from{{L}} = {{X}}_base{{L}} + 4u * {{X}}_four{{L}} * p.ld{{X}};
    let {{X}}_to{{L}} = {{AT}} + 4u * {{X}}_quad{{L}} * {{PITCH}}u + {{X}}_four{{L}} / 2u;
#end
