struct Params {
    choices: u32,
    experts: u32,
    chunks: u32, // of choices
    per_row: u32, // choices of a row, where rows count
}
