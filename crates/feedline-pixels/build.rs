//! Compiles the C shim around libjpeg-turbo's error handling (its errors leave by `longjmp`, which Rust must not see).

fn main() {
    println!("cargo::rerun-if-changed=src/turbo/shim.c");
    let mut build = cc::Build::new();
    build.file("src/turbo/shim.c").warnings(true);
    // turbojpeg-sys publishes where the headers of the libjpeg-turbo it built lie, several paths separated by commas.
    let include = std::env::var("DEP_TURBOJPEG_INCLUDE").unwrap_or_default();
    for path in include.split(',').filter(|path| !path.is_empty()) {
        build.include(path);
    }
    build.compile("feedline_turbo");
}
