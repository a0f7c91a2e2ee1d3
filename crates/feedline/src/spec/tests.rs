use super::*;

#[test]
fn json_round_trip_keeps_everything() {
    let options = LoaderOptions::default()
        .with_batch_size(7)
        .with_shuffle(Shuffle::Full)
        .with_sampler(vec![3, 1].into())
        .with_transforms("image", vec![Transform::resize_shorter(256), Transform::center_crop(224)]);
    let text = serde_json::to_string(&options).unwrap();
    assert_eq!(LoaderOptions::from_json(&text).unwrap(), options);
}

#[test]
fn presets_set_what_they_say() {
    let debug = LoaderOptions::default().debug_mode();
    assert_eq!((debug.num_workers, debug.persistent_workers, debug.timeout), (1, false, Some(10.0)));
    let ranked = LoaderOptions::default().with_num_workers(3).distributed_optimized(1, 4);
    assert_eq!((ranked.rank, ranked.world_size, ranked.num_workers), (1, 4, 0));
    let views = [("a".to_owned(), vec![Transform::center_crop(8)])];
    assert!(LoaderOptions::default().with_views("image", views).check().is_ok());
}

#[test]
fn samplers_round_trip_through_json() {
    for sampler in [
        Sampler::Sequential,
        Sampler::Random { replacement: true, num_samples: Some(3) },
        Sampler::Block { block: Some(4), window: None },
        Sampler::Weighted { weights: vec![0.5, 1.0], num_samples: None, replacement: false },
        Sampler::Balanced { field: "label".to_owned(), num_samples: None },
        Sampler::Mix { lengths: vec![1, 2], weights: vec![0.1, 0.9], num_samples: 7 },
        Sampler::Buckets { field: None, sizes: vec![(1, 2)], shuffle: true },
    ] {
        let options = LoaderOptions::default().with_sampler(sampler);
        let text = serde_json::to_string(&options).unwrap();
        assert_eq!(LoaderOptions::from_json(&text).unwrap(), options);
    }
}

#[test]
fn read_ahead_takes_a_word_or_a_number() {
    for (ahead, text) in
        [(ReadAhead::Auto, "\"auto\""), (ReadAhead::Off, "\"off\""), (ReadAhead::Reads(7), "7")]
    {
        assert_eq!(serde_json::to_string(&ahead).unwrap(), text);
        assert_eq!(serde_json::from_str::<ReadAhead>(text).unwrap(), ahead);
    }
    let message = LoaderOptions::from_json(r#"{"read_ahead": "on"}"#).unwrap_err().to_string();
    assert!(message.contains("'on' is not one of auto, off"), "{message}");
}

#[test]
fn unknown_settings_are_refused_by_name() {
    let message = LoaderOptions::from_json(r#"{"batchsize": 3}"#).unwrap_err().to_string();
    assert!(message.contains("batchsize") && message.contains("batch_size"), "{message}");
}

#[test]
fn a_timeout_beyond_the_clock_means_no_timeout() {
    assert_eq!(LoaderOptions::default().with_timeout(1e20).timeout_duration(), None);
    let half = LoaderOptions::default().with_timeout(0.5);
    assert_eq!(half.timeout_duration(), Some(Duration::from_millis(500)));
}

#[test]
fn wrong_transforms_are_named() {
    let text = r#"{"transforms": {"image": [{"op": "CenterCrop", "size": [-3, 5]}]}}"#;
    let message = LoaderOptions::from_json(text).unwrap_err().to_string();
    assert!(message.contains("-3") && message.contains("u32"), "{message}");
    let text = r#"{"transforms": {"image": {"a": [{"op": "Blurr"}]}}}"#;
    let message = LoaderOptions::from_json(text).unwrap_err().to_string();
    assert!(message.contains("Blurr") && message.contains("GaussianBlur"), "{message}");
}

#[test]
fn impossible_settings_are_refused() {
    let base = LoaderOptions::default;
    for (bad, knob) in [
        (base().with_batch_size(0), "batch_size"),
        (base().with_rank(2, 2), "rank"),
        (base().with_rank(0, 1 << 61), "world_size"),
        (base().with_prefetch(0), "prefetch"),
        (base().with_read_ahead(ReadAhead::Reads(0)), "read_ahead"),
        (base().with_read_ahead(ReadAhead::Reads(5000)), "read_ahead"),
        (base().with_timeout(-1.0), "timeout"),
        (base().with_max_errors(3), "max_errors"),
        (base().with_file_views(true), "views"),
        (base().with_sampler(vec![0].into()).with_shuffle(Shuffle::Full), "sampler"),
    ] {
        let message = bad.check().unwrap_err().to_string();
        assert!(message.starts_with(knob), "{message}");
    }
}
