package stranger

// nonblock is nothing: directories hold no pipes here.
const nonblock = 0
