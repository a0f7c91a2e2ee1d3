//! Instruction sets of the kernels: detected once, then passed on by value.

use std::sync::OnceLock;

/// Calls this module's kernel for the given level. If there is none for NEON, the reference runs. With the prefix
/// `avx512:` there is one for AVX-512, too; with `neon:` one for NEON; with `all:` one for each.
macro_rules! dispatch {
    ($level:expr, $kernel:ident($($argument:expr),* $(,)?)) => {
        match $level {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: these levels are only ever passed down after detection.
            $crate::CpuLevel::Avx2 | $crate::CpuLevel::Avx512 => unsafe { avx2::$kernel($($argument),*) },
            _ => scalar::$kernel($($argument),*),
        }
    };
    (avx512: $level:expr, $kernel:ident($($argument:expr),* $(,)?)) => {
        match $level {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: this level is only ever passed down after detection.
            $crate::CpuLevel::Avx512 => unsafe { avx512::$kernel($($argument),*) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: this level is only ever passed down after detection.
            $crate::CpuLevel::Avx2 => unsafe { avx2::$kernel($($argument),*) },
            _ => scalar::$kernel($($argument),*),
        }
    };
    (neon: $level:expr, $kernel:ident($($argument:expr),* $(,)?)) => {
        match $level {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: these levels are only ever passed down after detection.
            $crate::CpuLevel::Avx2 | $crate::CpuLevel::Avx512 => unsafe { avx2::$kernel($($argument),*) },
            #[cfg(target_arch = "aarch64")]
            // SAFETY: every aarch64 CPU has NEON.
            $crate::CpuLevel::Neon => unsafe { neon::$kernel($($argument),*) },
            $crate::CpuLevel::Scalar => scalar::$kernel($($argument),*),
        }
    };
    (all: $level:expr, $kernel:ident($($argument:expr),* $(,)?)) => {
        match $level {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: this level is only ever passed down after detection.
            $crate::CpuLevel::Avx512 => unsafe { avx512::$kernel($($argument),*) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: this level is only ever passed down after detection.
            $crate::CpuLevel::Avx2 => unsafe { avx2::$kernel($($argument),*) },
            #[cfg(target_arch = "aarch64")]
            // SAFETY: every aarch64 CPU has NEON.
            $crate::CpuLevel::Neon => unsafe { neon::$kernel($($argument),*) },
            $crate::CpuLevel::Scalar => scalar::$kernel($($argument),*),
        }
    };
}
pub(crate) use dispatch;

/// The instruction sets for which kernels exist. `Scalar` is the reference that the others must equal bit for bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CpuLevel {
    /// Portable Rust, no explicit SIMD.
    Scalar,
    /// x86-64 with AVX2, FMA, F16C, BMI1, BMI2 and LZCNT (Haswell, Zen and later).
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// The same with AVX-512 F, BW, VL, VBMI and VBMI2 (Ice Lake, Zen 4 and later), used by the kernels that gain from it:
    /// table lookups, stored coefficients, the inverse DCT, checksums. Older processors with AVX-512 (Skylake to Cascade
    /// Lake) lower their clock for it; they lack VBMI2, so they use AVX2.
    #[cfg(target_arch = "x86_64")]
    Avx512,
    /// 64-bit Arm with NEON, which every such CPU has.
    #[cfg(target_arch = "aarch64")]
    Neon,
}

impl CpuLevel {
    /// The best level of this machine. `FEEDLINE_CPU=scalar` in the environment forces the reference kernels (`avx2`:
    /// those of that level, if there are any), for comparing results and for tracking down a kernel bug.
    pub fn detect() -> Self {
        static LEVEL: OnceLock<CpuLevel> = OnceLock::new();
        *LEVEL.get_or_init(|| {
            let wanted = std::env::var_os("FEEDLINE_CPU");
            let named = |level: &Self| wanted.as_ref().is_some_and(|v| v.eq_ignore_ascii_case(level.name()));
            let all = Self::available();
            all.iter().copied().find(named).or(all.last().copied()).unwrap_or(CpuLevel::Scalar)
        })
    }

    /// Every level this machine can run, the scalar reference first. Tests and fuzz targets loop over this.
    pub fn available() -> Vec<Self> {
        let mut all = vec![CpuLevel::Scalar];
        #[cfg(target_arch = "x86_64")]
        {
            let avx2 = std::is_x86_feature_detected!("avx2")
                && std::is_x86_feature_detected!("fma")
                && std::is_x86_feature_detected!("f16c")
                && std::is_x86_feature_detected!("bmi1")
                && std::is_x86_feature_detected!("bmi2")
                && std::is_x86_feature_detected!("lzcnt");
            let avx512 = std::is_x86_feature_detected!("avx512f")
                && std::is_x86_feature_detected!("avx512bw")
                && std::is_x86_feature_detected!("avx512vl")
                && std::is_x86_feature_detected!("avx512vbmi")
                && std::is_x86_feature_detected!("avx512vbmi2");
            all.extend(avx2.then_some(CpuLevel::Avx2));
            all.extend((avx2 && avx512).then_some(CpuLevel::Avx512));
        }
        #[cfg(target_arch = "aarch64")]
        all.push(CpuLevel::Neon);
        all
    }

    /// A short name for reports.
    pub fn name(self) -> &'static str {
        match self {
            CpuLevel::Scalar => "scalar",
            #[cfg(target_arch = "x86_64")]
            CpuLevel::Avx2 => "avx2",
            #[cfg(target_arch = "x86_64")]
            CpuLevel::Avx512 => "avx512",
            #[cfg(target_arch = "aarch64")]
            CpuLevel::Neon => "neon",
        }
    }
}

/// The level for kernels that need `pdep` and `pext`: the reference where these are slow.
pub(crate) fn level_with_pdep(level: CpuLevel) -> CpuLevel {
    #[cfg(target_arch = "x86_64")]
    if !has_fast_pdep() {
        return CpuLevel::Scalar;
    }
    level
}

/// Whether `pdep` takes one cycle. It does on all CPUs that have it, except AMD's before Zen 3, where it takes up to
/// 300. `FEEDLINE_PDEP=slow` in the environment chooses the kernels for those, for comparing.
#[cfg(target_arch = "x86_64")]
pub(crate) fn has_fast_pdep() -> bool {
    use std::arch::x86_64::__cpuid;
    use std::sync::OnceLock;
    static FAST: OnceLock<bool> = OnceLock::new();
    *FAST.get_or_init(|| {
        if std::env::var_os("FEEDLINE_PDEP").is_some_and(|value| value == "slow") {
            return false;
        }
        let vendor = __cpuid(0);
        let family = __cpuid(1).eax;
        let family = (family >> 8 & 15) + (family >> 20 & 255);
        let amd = vendor.ebx == u32::from_le_bytes(*b"Auth") || vendor.ebx == u32::from_le_bytes(*b"Hygo");
        !amd || family >= 0x19
    })
}
