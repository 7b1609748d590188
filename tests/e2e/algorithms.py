"""The algorithms of limits as tests configure them: by X-Api-Key, in windows so long that nothing comes back while a test counts."""


def limit(algorithm, units, **more):
    """One with a capacity of so many units."""
    terms = {
        "sliding_window": {"rate": f"{units}/d"},
        "sliding_log": {"rate": f"{units}/d"},
        "token_bucket": {"rate": "1/d", "burst": units},
        "fixed_window": {"rate": f"{units}/month"},
    }[algorithm]
    return {"key": "header:x-api-key", "algorithm": algorithm, **terms, **more}


ALGORITHMS = ("sliding_window", "sliding_log", "token_bucket", "fixed_window")


def one_of_each(units, **more):
    return {name: limit(name, units, **more) for name in ALGORITHMS}
