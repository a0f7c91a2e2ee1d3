//! Which instruction set the kernels may use: found once, then passed along by value.

use std::sync::OnceLock;

/// The instruction sets for which kernels exist. `Scalar` is the reference that the others must equal bit for bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CpuLevel {
    /// Portable Rust, no explicit SIMD.
    Scalar,
    /// x86-64 with AVX2, FMA, F16C and BMI2 (Haswell, Zen and later).
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// 64-bit Arm with NEON (all of them).
    #[cfg(target_arch = "aarch64")]
    Neon,
}

impl CpuLevel {
    /// The best level of this machine. `FEEDLINE_CPU=scalar` in the environment forces the reference kernels, for
    /// comparing results and for narrowing down a suspected kernel bug.
    pub fn detect() -> Self {
        static LEVEL: OnceLock<CpuLevel> = OnceLock::new();
        *LEVEL.get_or_init(|| {
            if std::env::var_os("FEEDLINE_CPU").is_some_and(|v| v.eq_ignore_ascii_case("scalar")) {
                return CpuLevel::Scalar;
            }
            Self::best()
        })
    }

    /// Every level this machine can run, the scalar reference first. Tests and fuzz targets loop over this.
    pub fn available() -> Vec<Self> {
        let best = Self::best();
        if best == CpuLevel::Scalar { vec![best] } else { vec![CpuLevel::Scalar, best] }
    }

    /// A short name for reports.
    pub fn name(self) -> &'static str {
        match self {
            CpuLevel::Scalar => "scalar",
            #[cfg(target_arch = "x86_64")]
            CpuLevel::Avx2 => "avx2",
            #[cfg(target_arch = "aarch64")]
            CpuLevel::Neon => "neon",
        }
    }

    #[cfg(target_arch = "x86_64")]
    fn best() -> Self {
        let all = std::is_x86_feature_detected!("avx2")
            && std::is_x86_feature_detected!("fma")
            && std::is_x86_feature_detected!("f16c")
            && std::is_x86_feature_detected!("bmi2");
        if all { CpuLevel::Avx2 } else { CpuLevel::Scalar }
    }

    #[cfg(target_arch = "aarch64")]
    fn best() -> Self {
        CpuLevel::Neon
    }

    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    fn best() -> Self {
        CpuLevel::Scalar
    }
}
