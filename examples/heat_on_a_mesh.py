# %% [markdown]
# # Heat on a mesh
#
# Six heaters sit on a copper shell. How strong must each of them be to leave the shell
# evenly warm, after 2.5 seconds of heating and 2.5 seconds of waiting?
#
# ![Three panels: the temperature of the shell after 0.5, 2.5 and 5 seconds. At the end
# it is even](heat_on_a_mesh.png)
#
# Heat spreads by *∂u/∂t = κ Δu + q*. On a mesh of triangles, an implicit Euler step is
# *(M + τκL) u' = M (u + τq)*, with the areas *M* around the vertices and the cotangent
# Laplacian *L*. Factorising the left side takes most of the time. It depends on the
# shape and on *κ*, and not on the heaters *q* that we try. With cachax all trials share
# one factorisation, and a step is several times faster. Here is the code.
#
# ## The class
#
# An equinox module with three cached properties. `edges` uses NumPy, because the number
# of edges is not known in a trace. cachax runs it outside the trace.

# %%
import functools
import os
from collections import namedtuple
from dataclasses import replace
from timeit import timeit

import equinox as eqx
import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from scipy.spatial import ConvexHull

import cachax

jax.config.update("jax_enable_x64", True)
n = int(os.environ.get("N", 20))  # there will be 4 n² + 2 vertices
tau, kappa = 0.1, 1.1  # a step in s; the diffusivity of copper in cm²/s


class Shell(eqx.Module):
    points: jax.Array  # (vertices, 3), in cm
    faces: jax.Array  # (triangles, 3), numbers of vertices
    heater: jax.Array  # q at each vertex, in K/s
    diffusivity: jax.Array  # κ, in cm²/s

    @cachax.cached_property
    def matrices(self):  # the diagonal of M, and L
        p, f = self.points, self.faces
        side = p[jnp.roll(f, 1, axis=1)] - p[jnp.roll(f, -1, axis=1)]
        area = jnp.linalg.norm(jnp.cross(side[:, 0], side[:, 1]), axis=1) / 2
        mass = jnp.zeros(len(p)).at[f.T].add(area / 3)
        cotangents = jnp.einsum("fid,fjd,f->fij", side, side, 0.25 / area)
        return mass, jnp.diag(0 * mass).at[f[:, :, None], f[:, None]].add(cotangents)

    @cachax.cached_property
    def factor(self):
        mass, laplacian = self.matrices
        return jnp.linalg.cholesky(jnp.diag(mass) + tau * self.diffusivity * laplacian)

    @cachax.cached_property
    def edges(self):  # in numpy: a trace cannot know how many there are
        pairs = np.asarray(self.faces)[:, [0, 1, 1, 2, 2, 0]].reshape(-1, 2)
        return jnp.asarray(np.unique(np.sort(pairs, axis=1), axis=0))

    @cachax.jit
    def temperatures(self, switch):  # in K, after each step
        def step(u, on):
            heat = self.matrices[0] * (u + tau * on * self.heater)
            return (jax.scipy.linalg.cho_solve((self.factor, True), heat),) * 2

        return jax.lax.scan(step, 0 * self.heater, switch)[1]

    @cachax.jit
    def steepest(self, u):  # along an edge, in K/cm
        i, j = self.edges.T
        length = jnp.linalg.norm(self.points[i] - self.points[j], axis=1)
        return jnp.max(abs(u[i] - u[j]) / length)


# %% [markdown]
# ## Finding the heaters
#
# First a check: on the unit sphere the function *xy* must decay at the rate *l(l+1) =
# 6*. Then we give the shell its lobes and try each heater alone. Only the field
# `heater` changes, so these trials share one factorisation. A least-squares fit of the
# six results gives the strengths.
#
# The derivative with respect to *κ* goes through the factorisation.

# %%
corners = np.argwhere(abs(np.indices((2 * n + 1,) * 3) - n).sum(0) == n) - n
points = jnp.asarray(corners / np.linalg.norm(corners, axis=1, keepdims=True))
x, y, _ = points.T
switch = jnp.arange(50) < 25  # on for 2.5 s, off for as long
sphere = Shell(points, jnp.asarray(ConvexHull(points).simplices), x * y, kappa)
mode = sphere.temperatures(switch) @ (x * y)
rate = ((mode[24] / mode[49]) ** (1 / 25) - 1) / (tau * kappa)
cold = replace(sphere, points=points * (4 + 1.6 * x * (x**2 - 3 * y**2))[:, None])
spots = jnp.exp((jnp.vstack([jnp.eye(3), -jnp.eye(3)]) @ points.T - 1) / 0.1)
alone = [replace(cold, heater=spot).temperatures(switch)[-1] for spot in spots]
powers = jnp.linalg.lstsq(jnp.stack(alone, axis=1), 20 + 0 * x)[0]
best = replace(cold, heater=powers @ spots)
u = best.temperatures(switch)
slope = jax.grad(lambda k: replace(best, diffusivity=k).temperatures(switch)[-1].std())
print(f"{len(x)} vertices: xy decays at {rate:.4f}")
print(f"{powers.round(1)} K/s: in the end {u[-1].mean():.2f} ± {u[-1].std():.3f} K")
print(f"d std / d κ = {slope(kappa):.6f}; steepest {best.steepest(u[-1]):.3f} K/cm")
print(cachax.explain(Shell.temperatures, replace(cold, heater=spots[0]), switch))


# %% [markdown]
# ## How fast is it?
#
# One step, with the values passed by hand, with `functools.cached_property` under
# `jax.jit`, and with cachax.


# %%
class Theirs(Shell):
    factor = functools.cached_property(Shell.factor.func)


ByHand = namedtuple("ByHand", "matrices factor heater")
by_hand, theirs = ByHand(best.matrices, best.factor, best.heater), Theirs(**vars(best))
plain, one = jax.jit(Shell.temperatures.__wrapped__), switch[:1]  # one step
calls = [
    lambda: plain(by_hand, one).block_until_ready(),
    lambda: plain(theirs, one).block_until_ready(),
    lambda: best.temperatures(one).block_until_ready(),
]
times = np.median([[timeit(f, f, number=1) for f in calls] for _ in range(9)], axis=0)
print("by hand {:.1f} ms, functools {:.1f} ms, cachax {:.1f} ms".format(*1e3 * times))

# %% [markdown]
# ## The picture

# %%
figure, panels = plt.subplots(1, 3, figsize=(8, 3), sharey=True, layout="constrained")
view = *best.points.T[:2], best.faces[best.points[best.faces, 2].min(axis=1) >= 0]
for panel, i, label in zip(panels, (4, 24, 49), ("y (cm)", "", ""), strict=True):
    image = panel.tripcolor(*view, u[i], shading="gouraud", clim=(0, 40), cmap="plasma")
    panel.triplot(*view, color="white", linewidth=0.3, alpha=0.4)
    panel.set(title=f"{tau * (i + 1):.1f} s", xlabel="x (cm)", ylabel=label, aspect=1)
figure.colorbar(image, label="temperature rise (K)")
figure.savefig("heat_on_a_mesh.png", dpi=150)
