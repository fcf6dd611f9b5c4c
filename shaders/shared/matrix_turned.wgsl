    // {{X}} is contiguous along M or N, the rows of its tile along K: an invocation brings {{WIDTH}} elements of these of four K at a time, from {{WIDTH}}*slow
    // and 4*fast on. Four invocations read 64 bytes in a row; the next four are next to them in a row of the tile, where they meet fewer banks twice.
#for L in 0..{{BLOCKS}}
    let {{X}}_slow{{L}} = index % 4u + (index + {{L}}u * {{INVOCATIONS}}u) / {{STEP}}u * 4u;
    let {{X}}_fast{{L}} = index / 4u % ({{STEP}}u / 4u);
    let {{X}}_from{{L}} = {{X}}base + min({{FIRST}} / {{WIDTH}}u + {{X}}_slow{{L}}, ({{EDGE}} + {{WIDTH}}u - 1u) / {{WIDTH}}u - 1u) + 4u * {{X}}_fast{{L}} * p.ld{{X}};
    let {{X}}_k{{L}} = 4u * {{X}}_fast{{L}};
    let {{X}}_to{{L}} = {{AT}} + {{WIDTH}}u * {{X}}_slow{{L}} * {{PITCH}}u + {{X}}_fast{{L}} / 2u;
#end
