// group_place: where each choice is laid out, behind those of its expert before it, and in rows, which are zeros, what is laid out there. An invocation takes a
// choice. Twin of the three: graph.Group.Eval.
#import "shared/group_params.wgsl"
@bind var<uniform> p: Params;
@bind var<storage, read> ids: array<i32>;
@bind var<storage, read> counts: array<u32>;
@bind var<storage, read> offsets: array<i32>;
@bind var<storage, read_write> rows: array<i32>;
@bind var<storage, read_write> slots: array<i32>;

#import "shared/main.wgsl" LANES=64
{
    let choice = grid_index(workgroup, workgroups, lane, 64u);
    if (choice >= p.choices) {
        return;
    }
    let expert = ids[choice];
    let chunk = choice / {{CHUNK}}u;
    var slot = u32(offsets[expert]) + counts[chunk * p.experts + u32(expert)];
    for (var a = chunk * {{CHUNK}}u; a < choice; a++) {
        slot += select(0u, 1u, ids[a] == expert);
    }
    slots[choice] = i32(slot);
    rows[slot] = i32(choice + 1u);
}
