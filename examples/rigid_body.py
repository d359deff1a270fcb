# %% [markdown]
# # A robot arm
#
# An arm with seven joints moves its tool along a curve, tool down. Which torques hold
# it?
#
# ![Left: the arm in five positions on the curve. Right: holding torques of three joints
# along the curve](rigid_body.png)
#
# The frames of the links follow from the angles, one link after the other, and almost
# every question begins with them: how to move the tip, which torques hold the arm, what
# is its mass matrix? Each answer is a separate function. With cachax the frames are
# computed once for all of them, which makes the torques at 1,000 places more than ten
# times faster. Here is the code.
#
# ## The class
#
# `frames` and `jacobians` are cached properties. The methods are plain methods for one
# arm.

# %%
import functools
import os
from dataclasses import dataclass, replace
from timeit import timeit

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import cachax

jax.config.update("jax_enable_x64", True)
n = int(os.environ.get("N", 1000))  # places on the curve


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Arm:
    links: jax.Array  # (4, 8): length and offset in m, cosine and sine of the twist
    mass: jax.Array  # (7,): at the ends of the links, the last with the load, in kg
    angles: jax.Array  # (7,): of the joints

    @cachax.cached_property
    def frames(self):  # (8, 4, 4) by Denavit and Hartenberg, the last one at the tip
        (a, d, ct, st), q = self.links, jnp.append(self.angles, 0.0)
        c, s, o = jnp.cos(q), jnp.sin(q), 0 * q
        x, y, z = [c, s * ct, s * st, o], [-s, c * ct, c * st, o], [o, -st, ct, o]
        steps = jnp.array([x, y, z, [a, -d * st, d * ct, o + 1]]).T
        return jax.lax.associative_scan(jnp.matmul, steps)

    @cachax.cached_property
    def jacobians(self):  # (7, 7, 3): of the ends of the links, by the angles
        f, moved = self.frames[:, :3], jnp.tri(7)[..., None]
        return moved * jnp.cross(f[:7, :, 2], f[1:, None, :, 3] - f[:7, :, 3])

    def energy(self):  # in J
        return 9.81 * self.mass @ self.frames[1:, 2, 3]

    def torques(self):  # that hold the arm, in N m
        return 9.81 * self.mass @ self.jacobians[..., 2]

    def inertia(self):  # the mass matrix, in kg m²; each motor adds 0.1
        j = self.jacobians
        return jnp.einsum("k,kia,kja->ij", self.mass, j, j) + 0.1 * jnp.eye(7)

    def reach(self, target):  # with the tool down
        def newton(_, arm):
            tip = arm.frames[-1, :3]
            error = jnp.append(target - tip[:, 3], jnp.array([-tip[1, 2], tip[0, 2]]))
            slope = jnp.hstack([arm.jacobians[-1], arm.frames[:7, :2, 2]])
            return replace(arm, angles=arm.angles + jnp.linalg.lstsq(slope.T, error)[0])

        return jax.lax.fori_loop(0, 10, newton, self)


# %% [markdown]
# ## A thousand arms
#
# With `cachax.vmap` the methods work on a batch of arms, and cached values are computed
# once for the whole batch. `reach` finds the angles for each place on the curve.
# Energy, torques and mass matrix then share the frames.
#
# As a check: the torques that hold the arm are the slope of its energy.

# %%
reach = cachax.jit(cachax.vmap(Arm.reach, in_axes=(None, 0)))
each = [cachax.jit(cachax.vmap(f)) for f in (Arm.energy, Arm.torques, Arm.inertia)]
energy, torques, inertia = each
length, offset = [0, 0, 0, 0.08, -0.08, 0, 0.09, 0], [0.33, 0, 0.32, 0, 0.38, 0, 0, 0.2]
cosine, sine = [1, 0, 0, 0, 0, 0, 0, 1], [0, -1, 1, 1, -1, 1, 1, 0]
links = jnp.array([length, offset, cosine, sine])
mass = jnp.array([1.0, 4.0, 1.0, 3.0, 2.0, 1.0, 2.0])
home = Arm(links, mass, jnp.array([0.0, -0.4, 0.0, -2.2, 0.0, 1.8, 0.8]))
t = jnp.linspace(0, 2 * jnp.pi, n)
curve = jnp.stack([0.5 + 0.12 * jnp.sin(2 * t), 0.35 * jnp.sin(t), 0.3 + 0 * t], axis=1)
with cachax.record() as report:
    path = reach(home, curve)
    joules, holding, matrices = energy(path), torques(path), inertia(path)
    frames, jacobians = cachax.vmap(lambda arm: (arm.frames, arm.jacobians))(path)
print(report)
slope = jax.grad(lambda q: energy(replace(path, angles=q)).sum())(path.angles)
print(f"off the curve by {abs(frames[:, -1, :3, 3] - curve).max():.0e} m")
print(f"torques minus the slope of the energy: {abs(holding - slope).max():.0e} N m")
print(f"torques at home: {home.torques().round(1)} N m")
print(cachax.explain(cachax.jit(Arm.inertia), replace(home, mass=2 * mass)))


# %% [markdown]
# ## How fast is it?
#
# The torques at all places, with the Jacobians passed by hand, with
# `functools.cached_property` under `jax.jit`, and with cachax.


# %%
@jax.tree_util.register_dataclass
class Theirs(Arm):
    frames = functools.cached_property(Arm.frames.func)


theirs, plain = Theirs(**vars(path)), jax.jit(jax.vmap(Arm.torques))
by_hand = jax.jit(jax.vmap(lambda mass, jacobians: 9.81 * mass @ jacobians[..., 2]))
calls = [
    lambda: by_hand(path.mass, jacobians).block_until_ready(),
    lambda: plain(theirs).block_until_ready(),
    lambda: torques(path).block_until_ready(),
]
times = np.median([[timeit(f, f, number=50) for f in calls] for _ in range(9)], axis=0)
print("by hand {:.0f} µs, functools {:.0f} µs, cachax {:.0f} µs".format(*2e4 * times))

# %% [markdown]
# ## The picture

# %%
figure = plt.figure(figsize=(10, 4), layout="constrained")
space = figure.add_subplot(121, projection="3d", xticks=(0, 0.5), yticks=(-0.3, 0.3))
graph = figure.add_subplot(122, xlabel="curve parameter", ylabel="holding torque (N m)")
space.plot(*curve.T, color="black")
for k in (1, 2, 3):
    graph.plot(t, holding[:, k], color="black")
    graph.text(5.4, holding[-n // 10, k] - 7, f"joint {k + 1}")
for i, c in zip(range(n // 10, n, n // 5), plt.cm.viridis.colors[::55], strict=False):
    space.plot(*np.pad(frames[i, :, :3, 3], ((1, 0), (0, 0))).T, "o-", lw=3, color=c)
    graph.plot(3 * [t[i]], holding[i, 1:4], "o", color=c)
space.set(xlabel="x (m)", ylabel="y (m)", zlabel="z (m)", aspect="equal")
figure.savefig("rigid_body.png", dpi=150)
