"""Run by benchmarks/reinforcement.py with the Python of Stable-Baselines3: DQN on CartPole-v1.

    python _peer_dqn.py STEPS

Prints a line of JSON: the seconds that training took, and the mean return of 100 greedy episodes.
"""

import json
import sys
import time


def main(steps):
    import gymnasium
    from stable_baselines3 import DQN
    from stable_baselines3.common.evaluation import evaluate_policy
    from stable_baselines3.common.monitor import Monitor

    env = Monitor(gymnasium.make("CartPole-v1"))
    network = DQN(
        "MlpPolicy",
        env,
        learning_rate=2.3e-3,
        batch_size=64,
        buffer_size=100_000,
        learning_starts=1000,
        gamma=0.99,
        target_update_interval=10,
        train_freq=256,
        gradient_steps=128,
        exploration_fraction=0.16,
        exploration_final_eps=0.04,
        policy_kwargs={"net_arch": [256, 256]},
        seed=0,
        device="cpu",
    )
    began = time.perf_counter()
    network.learn(total_timesteps=steps)
    seconds = time.perf_counter() - began
    mean, _ = evaluate_policy(network, env, n_eval_episodes=100, deterministic=True)
    print(json.dumps({"seconds": seconds, "mean_return": float(mean)}))


if __name__ == "__main__":
    main(int(sys.argv[1]))
