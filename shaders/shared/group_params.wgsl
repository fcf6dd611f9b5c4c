struct Params {
    choices: u32,
    experts: u32,
    chunks: u32, // of choices
    unused: u32,
}
