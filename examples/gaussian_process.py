# %% [markdown]
# # Gaussian-process regression
#
# A mooring records the temperature of the sea. For a week its logger failed. A Gaussian
# process fills the gap, with an error band:
#
# ![Two panels: readings over 60 days with a gap, and the mean and 95% band of the
# process before and after the fit](gaussian_process.png)
#
# Almost all of the time goes into the Cholesky factor of the covariance of all 1,024
# readings. The weights *α = K⁻¹ y*, every prediction and the likelihood need it. With
# cachax the 60 predictions below compute it once, and are hundreds of times faster than
# with `functools`. Here is the code.
#
# ## The class
#
# `factor` and `alpha` are cached properties. The methods that use them are jitted with
# `cachax.jit`, which passes the cached values in. At the end of the cell is the same
# class with `functools`, for comparison.

# %%
import functools
import os
import timeit
from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from jax.scipy.linalg import cho_solve, solve_triangular
from scipy.optimize import minimize

import cachax


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Process:
    x: jax.Array  # times, in days
    y: jax.Array  # temperatures, in K above the long-term mean
    log_theta: jax.Array  # logs of the length scale (days), amplitude and noise (K)

    def covariance(self, a, b):  # Matérn 3/2
        length, amplitude, _ = jnp.exp(self.log_theta)
        r = jnp.sqrt(3) * jnp.abs(a[:, None] - b) / length
        return amplitude**2 * (1 + r) * jnp.exp(-r)

    @cachax.cached_property
    def factor(self):
        noise = jnp.exp(2 * self.log_theta[2]) * jnp.eye(len(self.x))
        return jnp.linalg.cholesky(self.covariance(self.x, self.x) + noise)

    @cachax.cached_property
    def alpha(self):
        return cho_solve((self.factor, True), self.y)

    @cachax.jit
    def mean(self, at):
        return self.covariance(at, self.x) @ self.alpha

    @cachax.jit
    def deviation(self, at):
        half = solve_triangular(self.factor, self.covariance(self.x, at), lower=True)
        return jnp.sqrt(jnp.exp(2 * self.log_theta[1]) - jnp.sum(half**2, axis=0))

    @cachax.jit
    def log_likelihood(self):
        log_det = 2 * jnp.sum(jnp.log(jnp.diag(self.factor)))
        return -(self.y @ self.alpha + log_det + len(self.x) * jnp.log(2 * jnp.pi)) / 2


@jax.tree_util.register_dataclass
class WithFunctools(Process):  # the same as it is often written, to compare
    factor = functools.cached_property(Process.factor.func)
    alpha = functools.cached_property(Process.alpha.func)
    mean = jax.jit(Process.mean.__wrapped__)


# %% [markdown]
# ## The fit
#
# We draw the readings from a process that we know, so that we can check the result, and
# put one eighth of them aside as the gap. Then we maximise the likelihood. Each step of
# the fit has different hyperparameters, so it needs its own factor.

# %%
jax.config.update("jax_enable_x64", True)
n = int(os.environ.get("N", 1024))
truth, rng = np.array([3.0, 1.2, 0.3]), np.random.default_rng(8)
times = jnp.array(np.sort(rng.uniform(0, 60, n + n // 8)))
drawn = Process(times, times, jnp.log(truth)).factor @ rng.standard_normal(len(times))
lost = np.arange(n // 2, n // 2 + n // 8)  # kept aside, to check the gap
x, y = jnp.delete(times, lost), jnp.delete(drawn, lost)
guess = Process(x, y, jnp.log(jnp.array([0.5, 0.5, 0.5])))
loss = jax.jit(jax.value_and_grad(lambda t: -Process(x, y, t).log_likelihood()))
fit = minimize(loss, guess.log_theta, jac=True)
theta, (_, curvature) = np.exp(fit.x), jax.jacfwd(loss)(fit.x)
error = theta * np.diag(np.linalg.inv(curvature)) ** 0.5  # as if it were a Gaussian
print("length, amplitude, noise:", theta.round(2), "±", error.round(2), "true:", truth)

# %% [markdown]
# ## Predictions
#
# Sixty days, one call for each day, need one factor. The table shows how often each
# value was computed and reused.
#
# The gradient of the likelihood with respect to the readings must be *∂L/∂y = -α*. It
# is, although `alpha` is cached. The last lines show that readings corrected by 0.05 K
# keep the factor, because it does not depend on them.

# %%
fitted, hours = replace(guess, log_theta=jnp.array(fit.x)), jnp.arange(60 * 24) / 24
with cachax.record() as report:
    days = [(fitted.mean(d), fitted.deviation(d)) for d in hours.reshape(60, 24)]
print(report)
value, slope = jax.value_and_grad(Process.log_likelihood)(fitted)
print("log likelihood", value, "|dL/dy + alpha|", abs(slope.y + fitted.alpha).max())
print(cachax.explain(Process.mean, replace(fitted, y=y - 0.05), hours[:24]))

# %% [markdown]
# ## How fast is it?
#
# One day of predictions, with the value passed by hand, with
# `functools.cached_property` under `jax.jit`, and with cachax.

# %%
theirs, day, alpha = WithFunctools(x, y, fitted.log_theta), hours[:24], fitted.alpha
by_hand = jax.jit(lambda process, at, alpha: process.covariance(at, process.x) @ alpha)
ways = {
    "by hand": lambda: by_hand(fitted, day, alpha).block_until_ready(),
    "functools": lambda: theirs.mean(day).block_until_ready(),
    "cachax": lambda: fitted.mean(day).block_until_ready(),
}
answers = np.array([call() for call in ways.values()])
rounds = [[timeit.timeit(f, f, number=10) for f in ways.values()] for _ in range(10)]
for way, seconds in zip(ways, np.median(rounds, axis=0), strict=True):
    print(f"the mean of a day, {way:9} {1e6 * seconds / 10:9,.0f} µs")

# %% [markdown]
# ## The picture

# %%
plt.rc("axes", titlelocation="left", titlecolor="C0")
figure, panels = plt.subplots(2, figsize=(7, 5.2), sharex=True, layout="constrained")
for panel, process, name in zip(panels, (guess, fitted), ("Guess", "Fit"), strict=True):
    mean, band = process.mean(hours), 1.96 * process.deviation(hours)
    panel.fill_between(hours, mean - band, mean + band, color="C0", alpha=0.35, lw=0)
    panel.plot(times, drawn, "C1.", x, y, "C7.", hours, mean, "C0", ms=3)
    panel.set(title=f"{name}: mean and 95% band", ylabel="temperature (K)")
panels[1].text(32, 2.2, "lost readings", color="C1")
panels[1].set(xlim=(0, 60), xlabel="time (days)")
figure.savefig("gaussian_process.png", dpi=150)
