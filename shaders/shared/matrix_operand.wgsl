// Of {{X}}: how far K is along its elements, eight of them in f16, and two along K of its rows.
fn {{X}}_along(k: u32) -> u32 { return {{ALONG}}; }
fn {{X}}_eight(v: {{TYPE}}, w: {{TYPE}}) -> vec4<u32> { return {{EIGHT}}; }
fn {{X}}_pair(v: {{TYPE}}, w: {{TYPE}}, e: u32) -> u32 { return {{PAIR}}; }
