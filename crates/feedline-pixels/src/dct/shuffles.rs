//! Indices that spread packed bytes over the places that a mask of eight bits names.

/// For each mask, the index of the packed byte for each of eight places; 128 gives zero, and still does with up to 64 added.
pub(super) static SHUFFLES: [[u8; 8]; 256] = {
    let mut table = [[128; 8]; 256];
    let mut mask = 0;
    while mask < 256 {
        let (mut column, mut next) = (0, 0);
        while column < 8 {
            if (mask >> column) & 1 == 1 {
                table[mask][column] = next;
                next += 1;
            }
            column += 1;
        }
        mask += 1;
    }
    table
};
