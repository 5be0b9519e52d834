"""The plug-in of tunecheck_ray: the runner behind `--on ray`."""

from tunecheck.plugins import Extension, Plugin

PLUGIN = Plugin(
    "ray",
    "Answer and judge the rows of a run on a Ray cluster.",
    extra="ray",
    options={"ray": Extension("tunecheck_ray._options:RayOptions", "The CPUs that a Ray task reserves.")},
    runners={
        "ray": Extension("tunecheck_ray._driver:open_runner", "Ray on this machine; ray:ADDRESS joins a cluster.")
    },
)
