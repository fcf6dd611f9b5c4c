struct Params {
    count: u32,
    width: u32,
    choices: u32, // of a row that is not laid out
    unused: u32,
}
