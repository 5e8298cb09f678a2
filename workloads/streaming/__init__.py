"""Data sets that fit in no memory: written as shards by `data prepare`, read by worker processes while training.

What a workload does with it, in `prepare_data` (untimed, resumed where a kill left it):

    from workloads.streaming.shards import Shards

    with Shards(data_dir) as shards:
        shards.write("train", features, parts, read_part)  # parts: lists of (file, label), for instance; a shard each
        shards.write("test", features, parts, read_part)
        (data_dir / "metadata.json").write_text(...)

and in the session. `load` runs in the worker processes; it gets the chosen rows as a `pyarrow.Table` and for each of
them a seed, made from (seed, epoch, index of the example), which is all that its augmentation may draw from:

    from workloads.streaming import loader
    from workloads.streaming.order import shuffled
    from workloads.streaming.session import StreamedSession

    def load(rows, seeds):  # a function of a module
        return torch.stack([decode(data, seed) for data, seed in zip(rows["image"], seeds)]), labels(rows)

    class FullSession(StreamedSession[FullRecipe]):
        recipe_type = FullRecipe
        metadata_keys = ("num_classes",)  # of metadata.json, in addition to num_train and num_test
        eval_batch = 500

        def _build(self):
            self.microbatch = self.execution.part_size(self.share)
            self._wrap(build_model, (self.metadata["num_classes"],), build_optimizer)

        def _warm_up(self):
            noise = torch.zeros(self.microbatch, ...), torch.zeros(self.microbatch, ...)
            self.execution.warm_up(self._loss, [[noise] * self.execution.num_parts])

        def _open(self, data_dir):
            train = loader.Examples(data_dir / "train", load)
            order = shuffled(len(train), self.recipe.global_batch_size, self.config.seed)
            return train, order, loader.Examples(data_dir / "test", load_test)

        def _loss(self, images, labels):  # a part of this rank's share of a global batch, on the device
            return functional.cross_entropy(self.model(images), labels) / self.execution.num_parts

        def predict(self, inputs):
            with self._evaluating():  # `testing`: this rank's every num_ranks-th test example, none twice
                own = [self.network(images).argmax(1).cpu() for images in self.testing]
            return {"classes": self._gathered(torch.cat(own).numpy())}
"""
