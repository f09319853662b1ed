"""The bayesian-torch network of the fixture: every kind of layer whose tensors the preset `bayesian-torch` names."""

import torch
from bayesian_torch.layers import (
    Conv2dReparameterization,
    ConvTranspose2dReparameterization,
    LinearFlipout,
    LinearReparameterization,
    LSTMReparameterization,
)


class Net(torch.nn.Module):
    """Images of 8×8: convolutions see them as pictures, an LSTM as eight rows, and a dense layer joins both."""

    def __init__(self):
        super().__init__()
        self.conv = Conv2dReparameterization(1, 4, 3)
        self.norm = torch.nn.BatchNorm2d(4)
        self.up = ConvTranspose2dReparameterization(4, 3, 2)
        self.fc1 = LinearReparameterization(3 * 7 * 7, 16)
        self.lstm = LSTMReparameterization(8, 6)
        self.fc2 = LinearFlipout(16 + 6, 3)
        # What a file may have besides posteriors, in types that posteriors never have.
        self.register_buffer("mask", torch.arange(8) % 3 == 0)
        self.register_buffer("gain", torch.linspace(0, 1, 5).half())

    def forward(self, images):
        """Logits and KL(q‖p)."""
        x, kl_conv = self.conv(images)
        x, kl_up = self.up(self.norm(torch.relu(x)))
        x, kl_fc1 = self.fc1(torch.relu(x).flatten(1))
        rows, _, kl_lstm = self.lstm(images[:, 0])
        logits, kl_fc2 = self.fc2(torch.cat([torch.relu(x), rows[:, -1]], 1))
        # The LSTM counts its divergence once a time step.
        return logits, kl_conv + kl_up + kl_fc1 + kl_lstm / images.shape[2] + kl_fc2
