"""DNA of 24 species, evolved along a tree, and another tree to start from: alignment.phy, start.tree."""
import random
random.seed(1)
taxa, sites = 24, 2000
def evolve(sequence, rate):
    return [random.choice('ACGT') if random.random() < rate else base for base in sequence]
living = [[random.choice('ACGT') for _ in range(sites)]]
while len(living) < taxa:
    parent = living.pop(random.randrange(len(living)))
    living += [evolve(parent, 0.08), evolve(parent, 0.08)]
names = ['t%d' % i for i in range(taxa)]
with open('alignment.phy', 'w') as out:
    print(taxa, sites, file=out)
    for name, sequence in zip(names, living):
        print(name, ''.join(evolve(sequence, 0.05)), file=out)
nodes = names[:]
random.shuffle(nodes)
while len(nodes) > 3:
    a, b = nodes.pop(random.randrange(len(nodes))), nodes.pop(random.randrange(len(nodes)))
    nodes.append('(%s,%s)' % (a, b))
open('start.tree', 'w').write('(%s,%s,%s);\n' % tuple(nodes))
